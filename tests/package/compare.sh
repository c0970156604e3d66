#!/bin/bash
# compare.sh COMMITTED NEW [ID..] - the CSV files of figures in two folders, cell by cell: a row for each figure says how many cells are the same,
# within 5 %, or differ, and the worst of that in a word. Below stands where a figure differs first. With IDs only these figures; else all that
# either folder has. Lines that begin with # are not compared. Exits with 1 if something differs, and if nothing was compared.
set -eu -o pipefail
committed=$1 new=$2
shift 2
if [ $# = 0 ]; then
    mapfile -t ids < <(find "$committed" "$new" -name '*.csv' 2>/dev/null | sed 's|.*/||; s|\.csv$||' | sort -u)
    set -- "${ids[@]}"
fi
for id; do
    for folder in "$committed" "$new"; do
        echo "file $id"
        [ ! -r "$folder/$id.csv" ] || sed '/^#/d; s/\r$//; s/^/row /' "$folder/$id.csv"
    done
done | awk '
    function cells(line, out,    n, i, c, quoted) {
        split("", out)
        n = 1
        out[1] = ""
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1)
            if (c == "\"")
                quoted = !quoted
            else if (c == "," && !quoted)
                out[++n] = ""
            else
                out[n] = out[n] c
        }
        return n
    }
    function is_number(s) { return s ~ /^-?[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?$/ }
    function is_near(x, y) { return is_number(x) && is_number(y) && x * y > 0 && x / y < 1.05 && y / x < 1.05 }
    # Rows are compared by their place, the heading among them; what is missing in one of both differs.
    function compare_row(i,    a, b, n, m, k) {
        n = cells(line[1, i], a)
        m = cells(line[2, i], b)
        for (k = 1; k <= (n > m ? n : m); k++)
            if (k in a && k in b && a[k] == b[k])
                same += a[k] != ""
            else if (i > 1 && is_near(a[k], b[k]))
                near++
            else if (!differ++)
                first = sprintf("%s, column %d: committed \"%s\", here \"%s\"", i > 1 ? "row " i - 1 : "heading", k, a[k], b[k])
    }
    function compare_figure(    i, what) {
        same = near = differ = 0
        if (rows[1] == 0 || rows[2] == 0) {
            differ = rows[1] + rows[2] + (rows[1] + rows[2] == 0)
            first = "there is no CSV " (rows[1] == 0 ? "committed" : "here")
        } else
            for (i = 1; i <= rows[1] || i <= rows[2]; i++)
                compare_row(i)
        what = differ ? "differs" : near ? "within 5 %" : "same"
        printf "  %-32s %8d %8d %8d  %s\n", id, same, near, differ, what
        if (differ)
            where[++wrong] = id ": " first
        sum[1] += same; sum[2] += near; sum[3] += differ
        figures++
    }
    BEGIN { printf "  %-32s %8s %8s %8s\n", "figure", "same", "in 5 %", "differ" }
    $1 == "file" {
        if ($2 != id || side == 2) {
            if (side == 2) compare_figure()
            side = 0
        }
        id = $2
        rows[++side] = 0
        next
    }
    { line[side, ++rows[side]] = substr($0, 5) }
    END {
        if (side == 2) compare_figure()
        printf "  %-32s %8d %8d %8d\n", "all " figures + 0, sum[1], sum[2], sum[3]
        for (i = 1; i <= wrong; i++)
            print "  differs: " where[i]
        if (!figures)
            print "  nothing was compared"
        exit wrong || !figures
    }'
