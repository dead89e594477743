/* The simulated nvidia-smi: reads the arguments and runs one form. See smi.h. */
#include <stdio.h>
#include <string.h>

#include "smi.h"

#define LOOP_DEFAULT_MS 5000
#define MS_PER_SECOND 1000

static const struct sub_command {
    const char *name;
    int (*run)(int argc, char **argv);
} sub_commands[] = {{"pmon", run_pmon}, {"topo", run_topo}};

/* Options by which one form is chosen. The query ones take the fields as their value. */
static const struct form {
    const char *brief, *name;
    int (*run)(const struct options *options, const struct gpus *gpus);
    bool value;
} forms[] = {
    {"-L", "--list-gpus", form_list, false},
    {"-q", "--query", form_log, false},
    {"", "--version", form_version, false},
    {"", "--query-gpu", form_query_gpu, true},
    {"", "--query-compute-apps", form_query_apps, true},
};

static const struct {
    const char *brief, *name;
    int (*print)(void);
} helps[] = {
    {"-h", "--help", help},
    {"", "--help-query-gpu", help_query_gpu},
    {"", "--help-query-compute-apps", help_query_apps},
};

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

struct arguments {
    int count, at;
    char **words;
};

/* True when the current word is this option. Its value is what follows the '=' of the long form
 * or, if it must have one, the next word; else NULL. */
static bool is_option(struct arguments *arguments, const char *brief, const char *name, bool must,
                      const char **value) {
    const char *word = arguments->words[arguments->at];
    size_t chars = strlen(name);
    *value = NULL;
    if (strncmp(word, name, chars) == 0 && word[chars] == '=') {
        *value = word + chars + 1;
        return true;
    }
    if (strcmp(word, name) != 0 && (!*brief || strcmp(word, brief) != 0))
        return false;
    if (must && arguments->at + 1 < arguments->count)
        *value = arguments->words[++arguments->at];
    return true;
}

static int invalid(const char *what, const char *value) {
    printf("Invalid value of %s: %s. Please run 'nvidia-smi -h' for help.\n", what,
           value ? value : "none");
    return EXIT_BAD_ARGUMENT;
}

/* The number may be left out, also when another option follows. */
static int parse_loop(struct arguments *arguments, const char *value, unsigned unit_ms,
                      struct options *options) {
    unsigned number;
    if (!value && arguments->at + 1 < arguments->count &&
        parse_number(arguments->words[arguments->at + 1], 0, ~0u, &number))
        value = arguments->words[++arguments->at];
    options->interval_ms = LOOP_DEFAULT_MS;
    if (!value)
        return 0;
    if (!parse_number(value, 1, ~0u / MS_PER_SECOND, &number))
        return invalid("the loop's interval", value);
    options->interval_ms = number * unit_ms;
    return 0;
}

static int parse_form(const struct form *form, const char *value, struct options *options) {
    if (options->form || (value && !form->value)) {
        puts("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
        return EXIT_BAD_ARGUMENT;
    }
    if (form->value && (!value || !*value))
        return invalid(form->name, value);
    options->form = form->run;
    options->fields = value;
    return 0;
}

static int parse_word(struct arguments *arguments, struct options *options) {
    const char *value;
    if (is_option(arguments, "-i", "--id", true, &value)) {
        options->ids = value;
        return value && *value ? 0 : invalid("--id", value);
    }
    if (is_option(arguments, "-d", "--display", true, &value)) {
        options->sections = value;
        return value && *value ? 0 : invalid("--display", value);
    }
    if (is_option(arguments, "", "--format", true, &value)) {
        options->format = value;
        return value && *value ? 0 : invalid("--format", value);
    }
    if (is_option(arguments, "-l", "--loop", false, &value))
        return parse_loop(arguments, value, MS_PER_SECOND, options);
    if (is_option(arguments, "-lms", "--loop-ms", false, &value))
        return parse_loop(arguments, value, 1, options);
    for (size_t i = 0; i < LENGTH(forms); i++)
        if (is_option(arguments, forms[i].brief, forms[i].name, forms[i].value, &value))
            return parse_form(&forms[i], value, options);
    printf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n",
           arguments->words[arguments->at]);
    return EXIT_BAD_ARGUMENT;
}

static int parse(struct arguments *arguments, struct options *options) {
    for (; arguments->at < arguments->count; arguments->at++) {
        int status = parse_word(arguments, options);
        if (status)
            return status;
    }
    bool query = options->form == form_query_gpu || options->form == form_query_apps;
    bool misplaced =
        (options->format && !query) || (options->sections && options->form != form_log);
    if (misplaced)
        puts("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
    if (!options->form)
        options->form = form_table;
    return misplaced ? EXIT_BAD_ARGUMENT : 0;
}

/* Cards are looked up anew each time: one that falls off the bus ends the loop with its status. */
static int run(struct options *options) {
    int status = nvml_open();
    while (!status) {
        struct gpus gpus = {.count = 0};
        if (options->form != form_version)
            status = gpus_select(options->ids, &gpus);
        if (!status)
            status = options->form(options, &gpus);
        if (fflush(stdout) != 0)
            return EXIT_OTHER;
        if (status || !options->interval_ms)
            break;
        options->round++;
        sleep_ms(options->interval_ms);
    }
    return status;
}

int main(int argc, char **argv) {
    struct arguments arguments = {argc, 1, argv};
    struct options options = {.form = NULL};
    for (size_t i = 0; argc > 1 && i < LENGTH(sub_commands); i++)
        if (strcmp(argv[1], sub_commands[i].name) == 0)
            return sub_commands[i].run(argc - 2, argv + 2);
    for (size_t i = 0; argc == 2 && i < LENGTH(helps); i++)
        if (strcmp(argv[1], helps[i].name) == 0 || strcmp(argv[1], helps[i].brief) == 0)
            return helps[i].print();
    int status = parse(&arguments, &options);
    return status ? status : run(&options);
}
