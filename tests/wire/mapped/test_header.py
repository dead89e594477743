"""Python states the numbers of the header in ``hook/include``, and reads what C wrote by it."""

import dataclasses
import pathlib
import subprocess

from gpustack.wire.mapped import activity, ledger, limits, two_slot_page

INCLUDE = pathlib.Path(__file__).parents[3] / "hook" / "include"
A = "GPU-00000000-0000-0000-0000-00000000000a"
B = "GPU-00000000-0000-0000-0000-00000000000b"

# C expression of vcuda_layout.h: what Python states. An offset stands for the fields before it.
NUMBERS = {
    "VCUDA_LAYOUT_VERSION": two_slot_page.LAYOUT_VERSION,
    "VCUDA_LAYOUT_OLDEST": two_slot_page.OLDEST_LAYOUT,
    "VCUDA_MAX_CARDS": two_slot_page.MAX_CARDS,
    "sizeof(struct vcuda_page_header)": two_slot_page.PAGE_HEADER.size,
    "offsetof(struct vcuda_page_header, version)": 8,
    "offsetof(struct vcuda_page_header, file_bytes)": 12,
    "offsetof(struct vcuda_page_header, slot_bytes)": 16,
    "offsetof(struct vcuda_page_header, published)": two_slot_page.PUBLISHED_OFFSET,
    "sizeof(struct vcuda_slot_header)": two_slot_page.SLOT_HEADER.size,
    "offsetof(struct vcuda_slot_header, crc)": 8,
    "sizeof(struct vcuda_limits_body)": two_slot_page.BODY_BYTES,
    "sizeof(struct vcuda_activity_body)": two_slot_page.BODY_BYTES,
    "sizeof(struct vcuda_limits_slot)": two_slot_page.SLOT_BYTES,
    "sizeof(struct vcuda_activity_slot)": two_slot_page.SLOT_BYTES,
    "sizeof(struct vcuda_limits_file)": two_slot_page.PAGE_FILE_BYTES,
    "sizeof(struct vcuda_activity_file)": two_slot_page.PAGE_FILE_BYTES,
    "offsetof(struct vcuda_limits_file, slots[0])": two_slot_page.slot_offset(0),
    "offsetof(struct vcuda_limits_file, slots[1])": two_slot_page.slot_offset(1),
    "offsetof(struct vcuda_activity_file, slots[1])": two_slot_page.slot_offset(1),
    "VCUDA_ON_ERROR_CLOSED": limits.OnError.CLOSED.value,
    "VCUDA_ON_ERROR_OPEN": limits.OnError.OPEN.value,
    "VCUDA_LEDGER_SLOTS": ledger.SLOTS,
    "VCUDA_UNIT_BYTES": ledger.UNIT_BYTES,
    "VCUDA_UNITS_BITS": 36,
    "sizeof(struct vcuda_ledger_file)": ledger.FILE_BYTES,
    "sizeof(struct vcuda_ledger_header)": ledger.HEADER.size,
    "sizeof(struct vcuda_ledger_card)": ledger.CARD.size,
    "sizeof(struct vcuda_ledger_entry)": ledger.ENTRY.size,
    "sizeof(struct vcuda_ledger_slot)": ledger.SLOT_BYTES,
    "offsetof(struct vcuda_ledger_slot, cards)": ledger.SLOT_HEADER.size,
    "offsetof(struct vcuda_ledger_slot, pid)": 4,
    "offsetof(struct vcuda_ledger_slot, limits_generation)": 8,
    "offsetof(struct vcuda_ledger_slot, activity_generation)": 16,
    "offsetof(struct vcuda_ledger_entry, open_ns)": 56,
    "offsetof(struct vcuda_ledger_card, measured_ns)": 32,
    "offsetof(struct vcuda_card_activity, paid_until_ns)": 40,
    "offsetof(struct vcuda_card_activity, debt_ns)": 48,
    "offsetof(struct vcuda_ledger_file, cards)": ledger.CARDS_OFFSET,
    "offsetof(struct vcuda_ledger_file, slots[0])": ledger.slot_offset(0),
    "offsetof(struct vcuda_ledger_file, slots[255])": ledger.slot_offset(255),
}

# A file that C fills field by field, so that Python's order of fields is checked and not restated.
FILL = """
static void fill(void) {
    static struct vcuda_limits_body l = {.on_error = 1, .device_count = 2};
    l.devices[1] = (struct vcuda_device_limit){
        .uuid = {[15] = 0x0b}, .memory_bytes = 11, .context_bytes = 12,
        .compute_percent = 13, .burst_percent = 14};
    l.devices[0] = (struct vcuda_device_limit){
        .uuid = {[15] = 0x0a}, .memory_bytes = 1, .compute_percent = 1, .burst_percent = 1};
    fwrite(&l, sizeof l, 1, stdout);
    static struct vcuda_activity_body a = {.sampled_ns = 21, .card_count = 1};
    a.cards[0] = (struct vcuda_card_activity){
        .uuid = {[15] = 0x0a}, .tenants_wanting = 22, .burst_allowed = 1,
        .unaccounted_bytes = 24, .busy_ns = 25, .paid_until_ns = 26, .debt_ns = 27};
    fwrite(&a, sizeof a, 1, stdout);
    static struct vcuda_ledger_file f = {.header = {.magic = VCUDA_LEDGER_MAGIC,
        .version = VCUDA_LAYOUT_VERSION, .file_bytes = sizeof f}};
    f.cards[0].uuid[15] = 0x0a;
    f.cards[1].uuid[15] = 0x0b;
    f.cards[1].measured_ns = 42;
    f.slots[3].pid = 31;
    f.slots[3].limits_generation = 39;
    f.slots[3].activity_generation = 40;
    f.slots[3].cards[1] = (struct vcuda_ledger_entry){
        .used = (UINT64_C(5) << VCUDA_UNITS_BITS) | 32, .delta = -1, .contexts = 33,
        .busy_ns = 34, .last_want_ns = 35, .denied = 36, .throttled_ns = 37, .open_ns = 41};
    f.slots[255].cards[0].used = 38;
    fwrite(&f, sizeof f, 1, stdout);
}
"""


def compile_and_run(folder: pathlib.Path, body: str) -> bytes:
    source = folder / "probe.c"
    source.write_text(f'#include <stdio.h>\n#include "vcuda_layout.h"\n{body}\n')
    program = folder / "probe"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE)]
    subprocess.run(["gcc", *flags, "-o", str(program), str(source)], check=True)
    return subprocess.run([str(program)], check=True, stdout=subprocess.PIPE).stdout


def test_sizes_and_offsets_are_those_of_the_header(tmp_path: pathlib.Path) -> None:
    prints = "\n".join(f'printf("%llu\\n", (unsigned long long)({name}));' for name in NUMBERS)
    output = compile_and_run(tmp_path, f"int main(void) {{\n{prints}\nreturn 0; }}")
    assert dict(zip(NUMBERS, map(int, output.split()), strict=True)) == NUMBERS


def test_fields_that_c_wrote_mean_the_same_to_python(tmp_path: pathlib.Path) -> None:
    output = compile_and_run(tmp_path, FILL + "int main(void) { fill(); return 0; }")
    body, output = output[: two_slot_page.BODY_BYTES], output[two_slot_page.BODY_BYTES :]
    assert limits.decode(two_slot_page.encode_page(limits.MAGIC, body)) == limits.Limits(
        on_error=limits.OnError.OPEN,
        devices=(
            limits.DeviceLimit(
                uuid=A, memory_bytes=1, compute_percent=1, burst_percent=1, context_bytes=0
            ),
            limits.DeviceLimit(
                uuid=B, memory_bytes=11, compute_percent=13, burst_percent=14, context_bytes=12
            ),
        ),
    )
    body, output = output[: two_slot_page.BODY_BYTES], output[two_slot_page.BODY_BYTES :]
    assert activity.decode(two_slot_page.encode_page(activity.MAGIC, body)) == activity.Activity(
        sampled_ns=21,
        cards=(
            activity.CardActivity(
                uuid=A,
                tenants_wanting=22,
                burst_allowed=True,
                unaccounted_bytes=24,
                busy_ns=25,
                paid_until_ns=26,
                debt_ns=27,
            ),
        ),
    )
    reading = ledger.decode(output, alive={3})
    use = ledger.CardUse(
        uuid=B,
        used_bytes=32 * 256,
        contexts=33,
        busy_ns=34,
        last_want_ns=35,
        denied=36,
        throttled_ns=37,
        open_ns=41,
    )
    empty = ledger.CardUse(uuid=A)
    slot = ledger.SlotUse(
        index=3, pid=31, cards=(empty, use), limits_generation=39, activity_generation=40
    )
    assert reading.slots == (slot,)
    assert reading.cards == (empty, dataclasses.replace(use, measured_ns=42))
