# compare.awk - NAME, and two CSV files of a figure, committed and new: a line of the artifact's table. Rows are compared by their place. A cell is
# the same, a number within 5 %, or differs; what is missing differs.
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
function is_number(s) { return s ~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ }
/^#/ { next }
{ line[FILENAME == ARGV[1] ? 1 : 2, ++rows[FILENAME == ARGV[1] ? 1 : 2]] = $0 }
END {
    most = rows[1] > rows[2] ? rows[1] : rows[2]
    for (i = 2; i <= most; i++) { # behind the heading
        n = cells(line[1, i], a)
        m = cells(line[2, i], b)
        for (k = 1; k <= (n > m ? n : m); k++) {
            if (a[k] == b[k])
                same += a[k] != ""
            else if (is_number(a[k]) && is_number(b[k]) && a[k] * b[k] > 0 && a[k] / b[k] < 1.05 && b[k] / a[k] < 1.05)
                near++
            else
                differs++
        }
    }
    printf "%s %d %d %d\n", name, same, near, differs
}
