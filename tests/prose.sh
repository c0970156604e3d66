#!/bin/bash
# prose.sh [FILE..] - is the prose short enough to be read? Without FILE: every README.md. A line a file; fails on a breach.
#
# At most 200 lines, of the README.md at the top 16 KB; sentences of 18 words on the mean and never over 40; no commit's hash
# but where measurements stand. Headings, tables and examples are not prose. `code` is one word; of a [link](to) its text
# counts, and the file it leads to must be there. The end of a list item or of a paragraph ends a sentence.
set -u
[ $# -gt 0 ] || { cd "$(dirname "$0")/.." && set -- $(find . -name README.md -not -path './build*' | sed 's,^\./,,' | sort); }
bad=0
for file in "$@"; do
    awk -v file="$file" -v bytes="$(wc -c <"$file")" '
        function breach(text) { print file ": " text; bad = 1 }
        function sentence(text,   word, n) {
            n = split(text, word, " ")
            sentences += n > 0
            words += n
            longest = n > longest ? n : longest
            if (n > 40)
                breach("a sentence of " n " words, 40 are the most: " substr(text, 1, 60) "..")
        }
        function paragraph(   part, n, i) {
            gsub(/`[^`]*`/, "CODE", text)
            gsub(/\]\([^)]*\)/, "", text)
            gsub(/[][*_]/, "", text)
            gsub(/[.?!][")]*[ \t]+/, "&\n", text)
            n = split(text, part, "\n")
            for (i = 1; i <= n; i++)
                sentence(part[i])
            text = ""
        }
        file !~ /measured/ {
            n = split($0, part, /[^0-9A-Za-z]+/)
            for (i = 1; i <= n; i++)
                if (length(part[i]) >= 7 && part[i] ~ /^[0-9a-f]+$/ && part[i] ~ /[0-9]/ && part[i] ~ /[a-f]/)
                    breach("line " NR ": the hash " part[i] " belongs into a log")
        }
        /^ *```/ { fenced = !fenced; paragraph(); next }
        fenced || /^    / { next }
        /^[ \t]*$/ || /^#/ || /^ *\|/ { paragraph(); next }
        /^ *([-*]|[0-9]+\.) / { paragraph(); sub(/^ *([-*]|[0-9]+\.) /, "") }
        { text = text " " $0 }
        END {
            paragraph()
            mean = sentences ? words / sentences : 0
            if (NR > 200)
                breach(NR " lines, 200 are the most")
            if (file == "README.md" && bytes > 16384)
                breach(bytes " bytes, 16384 are the most")
            if (mean > 18)
                breach(sprintf("%.1f words a sentence, 18 are the most", mean))
            printf "%-30s %3d lines %6d bytes %5.1f words a sentence, %3d at most\n", file, NR, bytes, mean, longest
            exit bad
        }' "$file" || bad=1
    for link in $(grep -oE '\]\([^):]+\)' "$file" | sed -E 's/^..//; s/[#)].*//'); do
        [ -e "$(dirname "$file")/$link" ] || { echo "$file: a link to $link, which is not there"; bad=1; }
    done
done
exit $bad
