#!/bin/bash
# headers.sh FOLDER CXX CC - fail when a header is no C++, or gives a function the linkage of C++, under whose name the library
# does not have it: no extern "C" around it. What is written on the way goes into FOLDER. CC is gcc, which lists prototypes;
# another one has C++ compile the headers, and no more.
set -u -o pipefail
folder=$1 cxx=$2 cc=$3
headers=$(ls ref/*.h traces/*.h traces/*/*.h sim/*.h sim/*/*.h kernels/*.h kernels/decode/decode.h kernels/cuda/host/cuda.h verify/*/*.h)
all=$folder/headers_all.cc
printf '#include "%s"\n' $headers >"$all"

if ! "$cc" -x c -std=gnu11 -D_GNU_SOURCE -I. -fsyntax-only -aux-info "$folder/headers.prototypes" "$all" 2>/dev/null; then
    "$cxx" -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I. "$all" || exit 1
    echo "headers: $(wc -w <<<"$headers") are C++ as well; their linkage was not looked at, $cc lists no prototypes"
    exit
fi
# "/* ./sim/clock.h:57:NC */ extern void clock_free (struct clock *);", also of what a .def declares; lab.h (tests/labs) declares what students write
functions=$(sed -nE 's@^/\* \./(ref|traces|sim|kernels|verify)/[a-z_0-9/]+\.(h|def):[0-9]+:[A-Z]+ \*/ extern [^(]*[ *]([A-Za-z_0-9]+) \(.*@\3@p' \
    "$folder/headers.prototypes" | sort -u)
n=$(wc -w <<<"$functions")
{
    echo 'extern const void *const all_functions[];'
    echo 'const void *const all_functions[] = {'
    printf '    (const void *)%s,\n' $functions
    echo '};'
} >>"$all"
"$cxx" -std=c++17 -Wall -Wextra -Werror -I. -c "$all" -o "$folder/headers_all.o" || exit 1
if nm -u -C "$folder/headers_all.o" | grep '('; then
    echo 'headers.sh: these have the linkage of C++ (expected extern "C" around them)'
    exit 1
fi
if [ "$n" -lt 300 ]; then
    echo "headers.sh: only $n functions seen (expected at least 300): wrong folder?"
    exit 1
fi
echo "headers: C++ as well, $n functions of $(wc -w <<<"$headers")"
