# roff.awk - a README as the body of a man page: headings, paragraphs, lists, tables, and text indented by four spaces, which stays as it is.
# Links become their text. -v as=header: a C header instead, whose first comment is text, and all behind it stays as it is.
function escaped(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    return s ~ /^[.']/ ? "\\&" s : s
}
function inline(s,    out, n, part, i) {
    while (match(s, /\[[^]]*\]\([^)]*\)/)) {
        out = substr(s, RSTART, RLENGTH)
        sub(/^\[/, "", out)
        sub(/\]\(.*$/, "", out)
        s = substr(s, 1, RSTART - 1) out substr(s, RSTART + RLENGTH)
    }
    gsub(/\*\*/, "", s)
    n = split(s, part, "`") # every second part is code
    out = ""
    for (i = 1; i <= n; i++)
        out = out (i % 2 ? escaped(part[i]) : "\\fB" escaped(part[i]) "\\fR")
    return out ~ /^[.']/ ? "\\&" out : out
}
function end_code() {
    if (code)
        print ".RE\n.fi"
    code = 0
}
function begin_code() {
    if (!code)
        print ".PP\n.nf\n.RS"
    code = 1
}
as == "header" && NR == 1 && /^\/\*/ { comment = 1; next }
as == "header" && comment && /^ \*\// {
    comment = 0
    end_code()
    begin_code()
    next
}
as == "header" && comment { sub(/^ \* ?/, ""); }
as == "header" && !comment { print escaped($0); next }
/^    / { begin_code(); print escaped(substr($0, 5)); next }
/^$/ { if (code) blank = 1; else gap = 1; next }
code && blank && /^[^ ]/ { end_code(); blank = 0; gap = 1 }
{ end_code(); blank = 0 }
/^# / { next }
/^## / { print ".SH " toupper(substr($0, 4)); gap = 0; next }
/^\|[-|]*\|$/ { next }
/^\|/ {
    n = split($0, cell, / *\| */)
    if (!table++) # the headings
        next
    print ".TP\n.B " inline(cell[2])
    for (i = 3; i < n; i++)
        print inline(cell[i]) (i + 1 < n ? ";" : "")
    next
}
{ table = 0 }
/^- / { print ".IP \\(bu 2\n" inline(substr($0, 3)); gap = 0; next }
{ sub(/^ +/, ""); if (gap) print ".PP"; gap = 0; print inline($0) }
END { end_code() }
