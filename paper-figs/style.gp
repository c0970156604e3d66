# style.gp - how every figure looks. Colours, markers and dashes of the series are in series.def, sizes in letters.h.
# Needs: kind ('svg' or 'png'), out (file), width, height (pixels).
# No enhanced text: names have _ and ^. Generic fonts, so that an SVG is set with what its reader has. A PNG's points are
# three quarters of an SVG's pixels, so that both are set alike.
set encoding utf8
if (kind eq 'svg') set terminal svg size width, height font 'sans-serif,17' background '#FFFFFF' noenhanced
if (kind eq 'png') set terminal pngcairo size width, height font 'sans-serif,12.75' background '#FFFFFF' noenhanced
text_font = kind eq 'svg' ? ',17' : ',12.75'
title_font = kind eq 'svg' ? ',19' : ',14.25'
small_font = kind eq 'svg' ? ',14' : ',10.5'
caption_font = small_font
set output out
set border 3 lw 1.2 lc rgb '#444444'
set tics nomirror out
set grid ytics lc rgb '#CCCCCC' lw 1
set style fill solid 0.9 border rgb '#333333'
set style line 90 lc rgb '#888888' lw 1.2 dt 3
set pointsize 1.1
unset key
