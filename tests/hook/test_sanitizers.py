"""The hook and its programs with gcc's sanitizers in them: memory, undefined behaviour, races.

The lists of programs stand in hook/Makefile. gcc brings the runtimes, so that no test is skipped.
"""

import pathlib
import subprocess

import pytest

from tests.hook.container import HOOK, make

pytestmark = pytest.mark.long

OVERFLOW = (
    "static char text[4]; int main(int count, char **all) { (void)all; return text[count + 3]; }"
)
SHIFT = "int main(int count, char **all) { (void)all; return (count << 31 << count) == 3; }"
RACE = """
#include <pthread.h>
static int counted;
static void *count(void *argument) { counted++; return argument; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, count, NULL);
    counted++;
    return pthread_join(thread, NULL);
}
"""
SHIFT_IN_CHILD = """
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **all) {
    (void)all;
    if (fork() == 0) { return (count << 31 << count) == 3; }
    wait(NULL);
    return 0;
}
"""
IN_CHILD = """
#include <sys/wait.h>
#include <unistd.h>
static char text[4];
int main(int count, char **all) {
    (void)all;
    if (fork() == 0) { return text[count + 3]; }
    wait(NULL);
    return 0;
}
"""


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_programs_run_without_a_finding(sanitizer: str) -> None:
    make(HOOK, f"sanitize-{sanitizer}")


@pytest.mark.parametrize(
    ("sanitizer", "mark"), [("address", "__asan_report_load8"), ("thread", "__tsan_func_entry")]
)
def test_hook_is_instrumented(sanitizer: str, mark: str) -> None:
    library = f"out/sanitized/{sanitizer}/libvcuda.so"
    make(HOOK, library)
    names = subprocess.run(
        ["nm", "-D", HOOK / library], check=True, capture_output=True, text=True
    ).stdout
    assert f"U {mark}\n" in names
    assert "T dlsym\n" not in names, "the sanitizer's runtime would meet it before it is ready"


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (OVERFLOW, "address", "AddressSanitizer: global-buffer-overflow"),
        (IN_CHILD, "address", "AddressSanitizer: global-buffer-overflow"),
        (SHIFT, "undefined", "runtime error: left shift"),
        (SHIFT_IN_CHILD, "address,undefined", "runtime error: left shift"),
        (RACE, "thread", "ThreadSanitizer: data race"),
    ],
    ids=["overflow", "overflow in a child", "shift", "shift in a child", "race"],
)
def test_a_finding_is_a_failure(
    tmp_path: pathlib.Path, source: str, options: str, said: str
) -> None:
    (tmp_path / "bad.c").write_text(source)
    compiler = ["gcc", "-g", "-pthread", "-fno-sanitize-recover=all", f"-fsanitize={options}"]
    subprocess.run([*compiler, "-o", "test_bad", "bad.c"], check=True, cwd=tmp_path)
    run = subprocess.run(
        [HOOK / "tests" / "run_sanitized.sh", tmp_path, "bad"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert said in run.stdout
