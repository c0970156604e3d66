/*
 * check_schemas.c - the files of verify/schema/ say what files are: what the program writes and what is committed is as they say, and what is
 * a little wrong is not. Plans of others are read as they were written.
 *
 * Tables: columns.csv and files.csv say the same of committed CSV. The validator knows the part of JSON Schema 2020-12 that these files use. A keyword that it does not know is an error.
 */
#include "ref/csv.h"
#include "sim/plan_file.h"
#include "verify/cases/tree_source.h"
#include "verify/judge/cover.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>

#define AUTO_JSON CLEARED_BY(drop_json) json_t *
static void drop_json(json_t **j)
{
    json_decref(*j);
}
AUTO_FREE(plan_file, plan_file, plan_file_free)

static char text[1 << 20];

/* ---- a validator --------------------------------------------------------------------------------------- */

static const char *const known[] = {"$schema", "$id", "title", "description", "$defs", "$ref", "type", "properties", "required",
                                    "additionalProperties", "items", "enum", "const", "minimum", "minItems", "maxItems",
                                    "minProperties", "pattern", "oneOf", "anyOf"};

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    ck_assert_msg(j, "%s:%d: %s", path, e.line, e.text);
    return j;
}

static bool is_type(const json_t *j, const char *type)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return strcmp(type, "object") == 0;
    case JSON_ARRAY:
        return strcmp(type, "array") == 0;
    case JSON_STRING:
        return strcmp(type, "string") == 0;
    case JSON_INTEGER:
        return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL:
        return strcmp(type, "number") == 0;
    case JSON_TRUE:
    case JSON_FALSE:
        return strcmp(type, "boolean") == 0;
    case JSON_NULL:
        return strcmp(type, "null") == 0;
    }
    return false;
}

static bool has_type(const json_t *j, const json_t *type)
{
    size_t i;
    json_t *one;
    bool is = json_is_string(type) && is_type(j, json_string_value(type));
    json_array_foreach(type, i, one)
        is = is || is_type(j, json_string_value(one));
    return is;
}

static bool valid(const json_t *root, const json_t *s, const json_t *j);

/* "#/$defs/NAME" here, or in another of our files: "case-1#/$defs/case". */
static bool valid_ref(const json_t *root, const char *ref, const json_t *j)
{
    const char *hash = strchr(ref, '#'), *name = strrchr(ref, '/') + 1;
    ck_assert_msg(hash && strncmp(hash, "#/$defs/", 8) == 0, "$ref %s", ref);
    if (hash == ref) {
        const json_t *def = json_object_get(json_object_get(root, "$defs"), name);
        ck_assert_msg(def, "$ref %s", ref);
        return valid(root, def, j);
    }
    FREED char *id = xasprintf("treeattn/%.*s", (int)(hash - ref), ref),
               *path = xasprintf("verify/schema/%.*s.json", (int)strcspn(ref, "-"), ref);
    AUTO_JSON other = load(path);
    ck_assert_str_eq(json_string_value(json_object_get(other, "$id")), id);
    return valid_ref(other, hash, j);
}

static bool matches(const char *pattern, const char *s)
{
    regex_t x;
    ck_assert_msg(regcomp(&x, pattern, REG_EXTENDED | REG_NOSUB) == 0, "pattern %s", pattern);
    bool is = regexec(&x, s, 0, NULL, 0) == 0;
    regfree(&x);
    return is;
}

static bool valid_object(const json_t *root, const json_t *s, const json_t *j)
{
    const json_t *properties = json_object_get(s, "properties"), *more = json_object_get(s, "additionalProperties");
    json_t *value;
    const char *key;
    size_t i;
    bool good = json_object_size(j) >= (size_t)json_integer_value(json_object_get(s, "minProperties"));
    json_array_foreach(json_object_get(s, "required"), i, value)
        good = good && json_object_get(j, json_string_value(value));
    json_object_foreach((json_t *)j, key, value) {
        const json_t *own = json_object_get(properties, key);
        good = good && (own ? valid(root, own, value) : json_is_object(more) ? valid(root, more, value) : !json_is_false(more));
    }
    return good;
}

static bool valid_array(const json_t *root, const json_t *s, const json_t *j)
{
    const json_t *items = json_object_get(s, "items"), *most = json_object_get(s, "maxItems");
    size_t i;
    json_t *value;
    bool good = json_array_size(j) >= (size_t)json_integer_value(json_object_get(s, "minItems")) &&
                (!most || json_array_size(j) <= (size_t)json_integer_value(most));
    json_array_foreach(j, i, value)
        good = good && (!items || valid(root, items, value));
    return good;
}

static int count_valid(const json_t *root, const json_t *list, const json_t *j)
{
    size_t i;
    json_t *one;
    int n = 0;
    json_array_foreach(list, i, one)
        n += valid(root, one, j);
    return n;
}

static bool valid(const json_t *root, const json_t *s, const json_t *j)
{
    const char *key, *ref = json_string_value(json_object_get(s, "$ref")),
                     *pattern = json_string_value(json_object_get(s, "pattern"));
    const json_t *type = json_object_get(s, "type"), *one = json_object_get(s, "const"), *some = json_object_get(s, "enum"),
                 *least = json_object_get(s, "minimum"), *any = json_object_get(s, "anyOf"), *of = json_object_get(s, "oneOf");
    json_t *value;
    size_t i;
    json_object_foreach((json_t *)s, key, value) {
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            is_known = is_known || strcmp(known[k], key) == 0;
        check_each(is_known, "the validator knows no '%s'", key);
    }
    bool in = !some;
    json_array_foreach(some, i, value)
        in = in || json_equal(value, j);
    return in && (!ref || valid_ref(root, ref, j)) && (!type || has_type(j, type)) && (!one || json_equal(one, j)) &&
           (!least || !json_is_number(j) || json_number_value(j) >= json_number_value(least)) &&
           (!pattern || !json_is_string(j) || matches(pattern, json_string_value(j))) &&
           (!any || count_valid(root, any, j) > 0) && (!of || count_valid(root, of, j) == 1) &&
           (!json_is_object(j) || valid_object(root, s, j)) && (!json_is_array(j) || valid_array(root, s, j));
}

static bool is_valid(const char *schema, const json_t *j)
{
    FREED char *path = xasprintf("verify/schema/%s.json", schema);
    AUTO_JSON s = load(path);
    ck_assert_str_eq(json_string_value(json_object_get(s, "$schema")), "https://json-schema.org/draft/2020-12/schema");
    return valid(s, s, j);
}

/* ---- what is committed, and what the program writes ------------------------------------------------------ */

/* Files of git's that end so; where this is no checkout, those that are there. */
TEST(committed_files_are_as_their_schemas_say)
{
    int64_t n = 0;
    run_shell(text, sizeof text, "git ls-files '*.json' '*.jsonl' 2>/dev/null || find traces verify/schema -name '*.json*'");
    if (!text[0])
        run_shell(text, sizeof text, "find traces verify/schema -name '*.json*'");
    for (char *path = strtok(text, "\n"); path; path = strtok(NULL, "\n")) {
        if (strncmp(path, "verify/schema/", 14) == 0)
            continue; /* these are read by all tests here */
        ck_assert_msg(strncmp(path, "traces/data/", 12) == 0, "%s has no schema", path);
        FREED char *all = file_text(path);
        bool lines = strstr(path, ".jsonl");
        for (char *line = all, *end; line && *line; line = end) {
            end = lines ? strchr(line, '\n') : NULL;
            if (end)
                *end++ = 0;
            AUTO_JSON j = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
            check_each(j && is_valid("trace", j), "%s: %.80s", path, line);
        }
        n++;
    }
    ck_assert_int_ge(n, 4);
}

TEST(what_is_written_is_as_its_schema_says)
{
    FREED char *d = scratch_folder(), *rows = xasprintf("%s/rows", d), *statement = xasprintf("%s/s.json", d);
    int code = run_shell(text, sizeof text,
                         "%s verify --suite smoke-1 --kernel cpu --strategy pat,naive -q --rows %s --statement %s 2>&1",
                         program_path(), rows, statement);
    ck_assert_msg(code == 0, "%s", text);
    AUTO_JSON of = load(statement);
    ck_assert(is_valid("statement", of));
    json_object_set_new(of, "result", json_string("good"));
    ck_assert(!is_valid("statement", of));
    FREED char *all = file_text(rows);
    int64_t n = 0;
    for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n"), n++) {
        AUTO_JSON j = json_loads(line, 0, NULL);
        check_each(j && is_valid("rows", j), "%s", line);
        json_object_del(j, n ? "from" : "judged");
        check_each(!is_valid("rows", j), "%s", line);
    }
    ck_assert_int_eq(n, 49);
    run_shell(text, sizeof text, "%s list edges-1 --json", program_path());
    AUTO_JSON cases = json_loads(text, 0, NULL);
    ck_assert(is_valid("case", cases) && json_array_size(cases) == 180);
    json_object_set_new(json_array_get(cases, 0), "case", json_string("heads=4/2"));
    ck_assert(!is_valid("case", cases));
}

/* The header of a safetensors file: its length in eight bytes, then JSON. */
TEST(bundles_are_as_their_schema_says)
{
    static const char python[] =
        "import sys; sys.path.insert(0, 'verify/child'); import numpy as np, treeattn; f = np.float16; z = np.zeros; "
        "treeattn.record(sys.argv[1], z((2, 4, 8), f), z((3, 16, 2, 8), f), z((3, 16, 2, 8), f), z((2, 4, 8), f), "
        "z((2, 4), np.float32), scale=0.5, block_table=np.array([[0, 1], [0, 2]], np.int32), "
        "seq_lens=np.array([20, 30], np.int32))";
    FREED char *d = scratch_folder(), *path = xasprintf("%s/b.safetensors", d);
    if (run_shell(text, sizeof text, "python3 -c \"%s\" %s 2>&1", python, path) != 0) {
        printf("skip: no python3 with numpy\n");
        return;
    }
    FILE *f = fopen(path, "rb");
    uint64_t n = 0;
    ck_assert(f && fread(&n, 1, sizeof n, f) == sizeof n && n < sizeof text && fread(text, 1, n, f) == n);
    fclose(f);
    AUTO_JSON j = json_loadb(text, n, 0, NULL);
    ck_assert(j && is_valid("bundle", j));
    json_object_del(j, "block_table");
    ck_assert(!is_valid("bundle", j));
}

/* ---- tables -------------------------------------------------------------------------------------------- */

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; n > 0 && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* int, float, text, empty, or words of its own. */
static bool is_cell(const char *type, const char *cell)
{
    char *end;
    const char *digits = cell + (cell[0] == '-');
    if (!cell[0])
        return has_word(type, "empty");
    if (has_word(type, "text") || (has_word(type, "int") && digits[0] && !digits[strspn(digits, "0123456789")]))
        return true;
    if (has_word(type, "float") && !cell[strspn(cell, "0123456789+-.eE")] && isfinite(strtod(cell, &end)) && !*end)
        return true;
    return has_word(type, cell) && !has_word("int float text empty", cell);
}

/* What is wrong with a table of that name without the columns `left_out`, looking at every `each`-th row; NULL: nothing. */
static char *wrong_table(const struct csv *schema, const char *table, const char *left_out, const struct csv *c, int64_t each)
{
    const char *type[64];
    int32_t n = 0, at = 0;
    for (int64_t i = 0; i < schema->n_rows; i++) {
        const char *column = csv_text(schema, i, "column");
        if (strcmp(csv_text(schema, i, "table"), table) != 0 || has_word(left_out, column))
            continue;
        if (n == c->n_columns || n == 64 || strcmp(c->column[n], column) != 0)
            return xasprintf("%s: column %d is %s (expected %s)", c->name, n + 1, n < c->n_columns ? c->column[n] : "missing", column);
        type[n++] = csv_text(schema, i, "type");
    }
    if (n != c->n_columns)
        return xasprintf("%s: column %s (expected no more than %d)", c->name, c->column[n], n);
    for (int64_t i = 0; i < c->n_rows; i += each) {
        if (c->start[i + 1] - c->start[i] != n)
            return xasprintf("%s:%d: %d cells (expected %d)", c->name, c->line[i], (int)(c->start[i + 1] - c->start[i]), n);
        for (at = 0; at < n && strcmp(csv_peek(c, i, at), c->column[at]) == 0;) /* a heading, where files were joined */
            at++;
        bool heading = at == n;
        for (at = 0; at < n && !heading; at++)
            if (!is_cell(type[at], csv_peek(c, i, at)))
                return xasprintf("%s:%d: %s is '%s' (expected %s)", c->name, c->line[i], c->column[at], csv_peek(c, i, at), type[at]);
    }
    return NULL;
}

static void read_schema(struct csv *columns, struct csv *files)
{
    struct err e = {0};
    ck_assert_msg(csv_read("verify/schema/columns.csv", columns, &e) && csv_read("verify/schema/files.csv", files, &e), "%s", e.msg);
}

/* Every committed CSV file has exactly the columns that its line in files.csv says, and cells of their types. */
TEST(committed_tables_are_as_their_schemas_say)
{
    CLEARED_BY(csv_clear) struct csv columns = {0}, files = {0};
    const char *quick = getenv("TREEATTN_QUICK");
    read_schema(&columns, &files);
    run_shell(text, sizeof text, "git ls-files '*.csv' 2>/dev/null");
    if (!text[0])
        run_shell(text, sizeof text, "find paper-figs tests/labs verify -name '*.csv'");
    for (char *path = strtok(text, "\n"); path; path = strtok(NULL, "\n")) {
        struct err e = {0};
        int64_t i = 0;
        if (strncmp(path, "tests/labs-wrong/", 17) == 0)
            continue; /* on purpose */
        while (i < files.n_rows && fnmatch(csv_text(&files, i, "files"), path, FNM_PATHNAME) != 0)
            i++;
        ck_assert_msg(i < files.n_rows, "%s has no schema (expected a line in verify/schema/files.csv)", path);
        CLEARED_BY(csv_clear) struct csv c = {0};
        ck_assert_msg(csv_read(path, &c, &e), "%s", e.msg);
        FREED char *wrong = wrong_table(&columns, csv_text(&files, i, "table"), csv_text(&files, i, "left_out"), &c,
                                        quick && c.n_rows > 1000 ? 16 : 1);
        ck_assert_msg(!wrong, "%s", wrong);
    }
}

/* Units are said, and those in a name are the unit. */
TEST(columns_have_their_units)
{
    static const char *const ends[][2] = {{"_us", "us"}, {"_ms", "ms"}, {"_s", "s"}, {"_bytes", "B"}, {"_len", "tokens"}, {"_pages", "pages"}};
    CLEARED_BY(csv_clear) struct csv columns = {0}, files = {0};
    read_schema(&columns, &files);
    for (int64_t i = 0; i < columns.n_rows; i++) {
        const char *name = csv_text(&columns, i, "column"), *type = csv_text(&columns, i, "type"), *unit = csv_text(&columns, i, "unit");
        bool number = has_word(type, "int") || has_word(type, "float"), used = false;
        check_each(number ? strcmp(unit, "-") != 0 && unit[0] : strcmp(unit, "-") == 0 || has_word(type, "text"),
                   "columns.csv: %s, %s has the unit '%s'", name, type, unit);
        for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
            const char *end = strrchr(name, '_');
            check_each(!end || strcmp(end, ends[k][0]) != 0 || strcmp(unit, ends[k][1]) == 0, "columns.csv: %s in %s", name, unit);
        }
        for (int64_t k = 0; k < files.n_rows; k++)
            used = used || strcmp(csv_text(&files, k, "table"), csv_text(&columns, i, "table")) == 0;
        check_each(used, "columns.csv: no file is a table %s", csv_text(&columns, i, "table"));
    }
}

/* A column more, less or of another name, and a cell of another type, are wrong. */
TEST(tables_that_are_a_little_wrong_are_told)
{
    static const struct {
        const char *csv, *says;
    } all[] = {{"machine,model,part,coefficient,value,error\nh200,clock,cuda,l2,1e-3,0\n", NULL},
               {"machine,model,part,coefficient,values,error\nh200,clock,cuda,l2,1e-3,0\n", "column 5 is values (expected value)"},
               {"machine,model,part,coefficient,value\nh200,clock,cuda,l2,1e-3\n", "column 6 is missing (expected error)"},
               {"machine,model,part,coefficient,value,error,n\nh200,clock,cuda,l2,1e-3,0,1\n", "column n (expected no more than 6)"},
               {"machine,model,part,coefficient,value,error\nh200,clock,cuda,l2,1e-3 s,0\n", "value is '1e-3 s' (expected float)"},
               {"machine,model,part,coefficient,value,error\nh200,clock,cuda,l2,nan,0\n", "value is 'nan' (expected float)"},
               {"machine,model,part,coefficient,value,error\nh200,clock,cuda,,1,0\n", "coefficient is '' (expected text)"},
               {"machine,model,part,coefficient,value,error\nh200,clock,cuda,l2,1\n", "5 cells (expected 6)"}};
    CLEARED_BY(csv_clear) struct csv columns = {0}, files = {0};
    read_schema(&columns, &files);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct err e = {0};
        CLEARED_BY(csv_clear) struct csv c = {0};
        ck_assert_msg(csv_parse(all[i].csv, strlen(all[i].csv), "x", &c, &e), "%s", e.msg);
        FREED char *wrong = wrong_table(&columns, "coefficients", "", &c, 1);
        ck_assert_msg(all[i].says ? wrong && strstr(wrong, all[i].says) : !wrong, "%s: %s", all[i].csv, wrong ? wrong : "good");
    }
    ck_assert(is_cell("PASS FAIL", "PASS") && !is_cell("PASS FAIL", "PAS") && !is_cell("PASS FAIL", "") && !is_cell("int empty", "1.5"));
    ck_assert(is_cell("int empty", "") && is_cell("int empty", "-3") && !is_cell("int empty", "empty") && !is_cell("float", "-") && is_cell("number", "number"));
}

/* ---- plans of others ----------------------------------------------------------------------------------- */

static char *printed(const struct plan *p)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    plan_print_json(f, p);
    fclose(f);
    return out;
}

/* Every strategy's plans, on trees with cut nodes, dead ones and queries that see nothing, too. */
LOOP_TEST(plans_are_read_as_they_were_written, n_strategies)
{
    static const char *const trees[] = {"gen:bushy:3", "gen:degenerate:7", "gen:token:4", "gen:forest:5", "levels:1,2,8_300,40,9"};
    struct strategy_use use = strategy_default(strategies[_i]);
    int planned = 0;
    for (size_t t = 0; t < sizeof trees / sizeof trees[0]; t++) {
        struct err e = {0};
        CLEARED_BY(tree_source_clear) struct tree_source src;
        ck_assert(tree_source_parse(trees[t], &src, &e));
        AUTO_WITH_TREE nf = nform_new(tree_source_load(&src, &e));
        char why[WHY_MAX];
        struct plan_env env = env_h200(8, 2);
        AUTO(plan) p = strategy_plan(&use, nf, &env, why);
        if (!p)
            continue;
        FREED char *json = printed(p);
        AUTO_JSON j = json_loads(json, 0, NULL);
        ck_assert_msg(is_valid("plan", j), "%s on %s", use.s->name, trees[t]);
        AUTO(plan_file) x = plan_file_parse(json, strlen(json), "FILE", &e);
        ck_assert_msg(x, "%s", e.msg);
        struct strategy_use as = strategy_default(&x->strategy);
        AUTO(plan) again = strategy_plan(&as, nf, &env, why);
        ck_assert_msg(again && plan_same(p, again) && cover_check(again, &e), "%s on %s: %s %s", use.s->name, trees[t], why, e.msg);
        planned++;
    }
    ck_assert_int_gt(planned, 0);
}

/* A plan of a file is of one tree: another length, another parent, a query elsewhere, a query or node more, a window. */
TEST(plans_of_files_are_of_one_tree)
{
    struct err e = {0};
    char why[WHY_MAX];
    struct strategy_use use;
    struct plan_env env = env_h200(8, 2);
    ck_assert(strategy_parse("flash-decoding", &use, &e));
    FREED char *json = NULL;
    AUTO(plan_file) x = NULL;
    for (int change = 0; change < 7; change++) {
        struct tree *t = tree_new(change == 6 ? 5 : 4, 0);
        for (int32_t i = 0; i < t->n_nodes; i++) {
            t->parent[i] = i > 0 ? 0 : -1;
            t->len[i] = i > 0 ? 5 : 300;
        }
        t->len[2] += change == 1;
        tree_query_leaves(t);
        if (change == 2)
            t->parent[3] = 2;
        if (change == 3)
            t->query[0] = (struct query){.node = 0, .upto = t->len[0]};
        if (change == 4 || change == 6)
            t->n_queries--;
        if (change == 5)
            tree_set_window(t, 5); /* begins where nodes do */
        AUTO_WITH_TREE nf = nform_new(t);
        if (change == 0) {
            AUTO(plan) p = strategy_plan(&use, nf, &env, why);
            ck_assert_msg(p, "%s", why);
            json = printed(p);
            x = plan_file_parse(json, strlen(json), "FILE", &e);
            ck_assert_msg(x, "%s", e.msg);
        }
        struct strategy_use as = strategy_default(&x->strategy);
        why[0] = 0;
        AUTO(plan) again = strategy_plan(&as, nf, &env, why);
        ck_assert_msg(change == 0 ? again != NULL : !again && strstr(why, "of another tree"), "change %d: %s", change, why);
    }
}

/* One word of a plan that is right is changed: where, and what was expected. */
TEST(broken_plans_are_told)
{
    static const char good[] =
        "{\"format\": \"treeattn-plan\", \"version\": 1, \"storage\": \"shared\",\n"
        "\"partials\": {\"slots\": 2, \"o\": \"fp32\", \"weight\": \"LSE\"},\n"
        "\"tree\": {\"nodes\": [{\"parent\": -1, \"len\": 30}], \"queries\": [{\"node\": 0, \"upto\": 20}]},\n"
        "\"launches\": [{\"name\": \"a\", \"order\": \"serial\"}, {\"name\": \"b\", \"order\": \"serial\"}],\n"
        "\"groups\": [{\"launch\": 0, \"tile\": [16, 32], \"queries\": [0], \"runs\": [{\"node\": 0, \"begin\": 0, \"end\": 12}], \"mask\": \"none\", \"slots\": [0]},\n"
        "{\"launch\": 0, \"tile\": [16, 32], \"queries\": [0], \"runs\": [{\"node\": 0, \"begin\": 12, \"end\": 20}], \"mask\": \"none\", \"slots\": [1]}],\n"
        "\"merges\": [{\"launch\": 1, \"query\": 0, \"inputs\": [0, 1]}]}\n";
    static const struct {
        const char *from, *to, *says;
        int code;
    } all[] = {{"", "", "passed", 0},
               {"treeattn-plan", "plan", "format (expected treeattn-plan", 2},
               {"\"version\": 1", "\"version\": 2", "version (expected a whole number from 1 to 1)", 2},
               {"\"shared\"", "\"own\"", "storage (expected shared, replicated", 2},
               {"\"parent\": -1", "\"parent\": 0", "tree.nodes[0].parent (expected a whole number from -1 to -1)", 2},
               {"\"upto\": 20", "\"upto\": 31", "tree.queries[0].upto (expected a whole number from 0 to 30)", 2},
               {"\"serial\"", "\"late\"", "launches[0].order (expected serial, concurrent)", 2},
               {"\"launch\": 0", "\"launch\": 2", "groups[0].launch (expected a whole number from 0 to 1)", 2},
               {"\"end\": 12", "\"end\": 0", "groups[0].runs[0].end (expected a whole number from 1 to 30)", 2},
               {"\"none\"", "\"dense\"", "groups[0].visible (expected a list for each query", 2},
               {"\"slots\": [1]", "\"slots\": [2]", "groups[1].slots (expected a whole number from 0 to 1)", 2},
               {"\"inputs\": [0, 1]", "\"inputs\": 0", "merges[0].inputs (expected a list)", 2},
               {"\"merges\"", "\"merges", "FILE:7: ", 2},
               {"\"begin\": 12", "\"begin\": 13", "tokens 12 to 13 of node 0 are in no group", 1},
               {"\"begin\": 12", "\"begin\": 11", "node 0", 1},
               {"\"end\": 20", "\"end\": 21", "BAD_PLAN", 1},
               {"\"inputs\": [0, 1]", "\"inputs\": [0]", "BAD_PLAN", 1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *at = strstr(good, all[i].from);
        FREED char *bad = xasprintf("%.*s%s%s", (int)(at - good), good, all[i].to, at + strlen(all[i].from)),
                   *path = scratch_file(bad, strlen(bad));
        run_shell(text, sizeof text, "%s verify --kernel naive-c --plan %s 2>&1 | sed 's#%s#FILE#'", program_path(), path, path);
        ck_assert_msg(strstr(text, all[i].says), "%s -> %s: %s", all[i].from, all[i].to, text);
        int code = run_shell(text, sizeof text, "%s verify --kernel naive-c --plan %s 2>&1", program_path(), path);
        ck_assert_msg(code == all[i].code, "%s -> %s: %d: %s", all[i].from, all[i].to, code, text);
        int priced = run_shell(text, sizeof text, "%s sim --plan %s --strategy pat 2>&1", program_path(), path);
        ck_assert_msg(priced == all[i].code && strstr(text, code ? "treeattn: " : "file:plan"), "%s -> %s: %d: %s", all[i].from,
                      all[i].to, priced, text);
    }
}

/* A plan of a file costs what the plan of the strategy costs that made it. */
TEST(plans_of_files_are_priced_alike)
{
    FREED char *d = scratch_folder();
    int code = run_shell(text, sizeof text,
                         "t=%s; cd %s && $t plan --levels '1,4,16 512,64,17' --heads 8/2 --head-dim 64 --strategy treeattn --json >p.json && "
                         "$t sim --plan p.json --heads 8/2 --head-dim 64 --strategy treeattn --machine h200 --csv 2>&1 | "
                         "sed 's/file:treeattn/treeattn/' | sort | uniq | wc -l",
                         program_path(), d);
    ck_assert_msg(code == 0 && strcmp(text, "2\n") == 0, "%s", text);
}
