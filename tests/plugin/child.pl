#!/usr/bin/perl
# child.pl - a child in perl-base alone: attention in double over the slots of each query, for small cases in f32.
use strict;
open(my $judge, '<&=', 3);
open(my $me, '>&=', 4);
$me->autoflush(1);
while (my $line = <$judge>) {
    last if $line =~ /"bye"/;
    if ($line =~ /"hello"/) {
        print $me '{"hello":1,"name":"perl","view":"slots","dtypes":["f32"],"accumulate":"f64","sum_block":1,"max_pairs":12000', $ENV{CHILD_GRAPH} ? ',"graph":true' : '', "}\n";
        next;
    }
    my %ask = $line =~ /"(\w+)":"?([^",}]+)/g;
    my %t = tensors($ask{in});
    $ask{scale} = 0 if $ask{graph} && $ENV{CHILD_GRAPH} eq 'stale'; # what was recorded with other values
    my ($heads, $kv_heads, $d) = @ask{qw(heads kv_heads head_dim)};
    my @ptr = unpack('l<*', $t{kv_indptr});
    my @index = unpack('l<*', $t{kv_indices});
    my (@o, @lse);
    for my $row (0 .. $ask{queries} * $heads - 1) {
        my ($i, $kv_head) = (int($row / $heads), int($row % $heads * $kv_heads / $heads));
        my @q = unpack('f<*', substr($t{q}, 4 * $d * $row, 4 * $d));
        my @at = map { 4 * $d * ($_ * $kv_heads + $kv_head) } @index[$ptr[$i] .. $ptr[$i + 1] - 1];
        my ($max, $sum, @logit) = (-9**9**9, 0);
        my @acc = (0) x $d;
        for my $at (@at) {
            my @k = unpack('f<*', substr($t{k}, $at, 4 * $d));
            my $dot = 0;
            $dot += $q[$_] * $k[$_] for 0 .. $d - 1;
            push @logit, $dot * $ask{scale};
            $max = $logit[-1] if $logit[-1] > $max;
        }
        for my $j (0 .. $#at) {
            my $p = exp($logit[$j] - $max);
            my @v = unpack('f<*', substr($t{v}, $at[$j], 4 * $d));
            $acc[$_] += $p * $v[$_] for 0 .. $d - 1;
            $sum += $p;
        }
        push @o, map { $sum ? $_ / $sum : 0 } @acc;
        push @lse, $sum ? $max + log($sum) : -9**9**9;
    }
    answer($ask{out}, pack('f<*', @o), pack('f<*', @lse), $ask{queries}, $heads, $d);
    print $me "{\"done\":$ask{run}}\n";
}

# name -> bytes
sub tensors {
    open(my $f, '<:raw', $_[0]) or die;
    local $/;
    my $data = <$f>;
    my $n = unpack('Q<', $data);
    my $header = substr($data, 8, $n);
    my %t;
    $t{$1} = substr($data, 8 + $n + $2, $3 - $2) while $header =~ /"(\w+)":\{[^}]*"data_offsets":\[(\d+),(\d+)\]\}/g;
    return %t;
}

sub answer {
    my ($path, $o, $lse, $n, $heads, $d) = @_;
    my $gap = $ENV{CHILD_GAP} // 0; # bytes of nothing: nothing need be aligned
    my ($a, $b) = ($gap + length $o, $gap + length($o) + length $lse);
    my $header = qq({"o":{"dtype":"F32","shape":[$n,$heads,$d],"data_offsets":[$gap,$a]},)
        . qq("lse":{"dtype":"F32","shape":[$n,$heads],"data_offsets":[$a,$b]}});
    open(my $f, '>:raw', $path) or die;
    print $f pack('Q<', length $header), $header, 'x' x $gap, $o, $lse;
}
