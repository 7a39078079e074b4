package bench

import (
	"slices"
	"testing"
	"time"
)

// way is one way to send the same statement. open returns a func that sends it for the i-th time.
type way struct {
	driver string
	open   func(b *testing.B) func(i int)
}

// compare runs a sub-benchmark for each way. All but the first also report, as pairs measures it, what a call takes the
// first way (base-ns) and what their own adds to that (added-ns).
func compare(b *testing.B, name string, ways []way) {
	for n, w := range ways {
		b.Run(name+"/driver="+w.driver, func(b *testing.B) {
			send := w.open(b)
			send(0)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				send(i)
			}
			if n > 0 {
				reportPairs(b, ways[0].open(b), send, 1)
			}
		})
	}
}

// reportPairs reports what pairs measures, where each func makes so many calls.
func reportPairs(b *testing.B, base, this func(i int), calls int) {
	before, with := pairs(base, this)
	b.ReportMetric(before/float64(calls), "base-ns")
	b.ReportMetric((with-before)/float64(calls), "added-ns")
}

// pairs takes turns: some 20 µs of the one, the same number of calls of the other, thousands of times. Both see the same
// machine, however busy it is with other things, and their quartiles differ by what they differ in. Two benchmarks that
// run one after the other do not compare to better than 20 % on such a machine; these do to 2 %.
func pairs(a, b func(i int)) (nsA, nsB float64) {
	const (
		slice = 20 * time.Microsecond
		whole = 200 * time.Millisecond
	)
	calls, i := 1, 0
	turn := func(send func(i int)) time.Duration {
		start := time.Now()
		for n := range calls {
			send(i + n)
		}
		return time.Since(start)
	}
	for turn(a) < slice {
		calls *= 2
	}
	var as, bs []time.Duration
	for end := time.Now().Add(whole); time.Now().Before(end) || len(as) < 100; i += calls {
		as, bs = append(as, turn(a)), append(bs, turn(b))
	}
	quartile := func(times []time.Duration) float64 {
		slices.Sort(times)
		return float64(times[len(times)/4].Nanoseconds()) / float64(calls)
	}
	return quartile(as), quartile(bs)
}
