// Command report reads the output of the benchmarks and prints a Markdown table of what each way to send a statement
// adds to the first, with the budgets of the design and whether they are kept. All numbers are medians over the runs
// (-count); the times added were measured as pairs, which other load on the machine hardly moves.
//
//	go test -run '^$' -bench . -benchmem -count 10 ./bench ./store | go run ./bench/report
package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// budgets are those of the design, section 7, by the beginning of a benchmark's name and a part of the rest.
var budgets = []struct {
	begins, has string
	limit
}{
	{"Pass/on=noop", "", limit{added: 60, allocs: true}},
	{"PassParallel/on=noop", "", limit{allocs: true}},
	{"Pass/on=sqlite", "", limit{allocs: true}},
	{"Fenced/", "write=pinned", limit{ratio: 1, allocs: true}},
	{"Fenced/", "write=prepared", limit{ratio: 1, allocs: true}},
	{"Fenced/", "", limit{allocs: true}},
	{"FirstSight/", "", limit{ratio: 3}},
	{"Flood/", "", limit{mib: 16}},
}

// limit is a budget; what is zero has no limit.
type limit struct {
	added, ratio, mib float64
	allocs            bool // no more allocations than the first way
}

// bases are the ways that others compare with, by rank.
var bases = []string{"parse", "byhand", "bare"}

// values are what the runs of one sub-benchmark measured, by unit.
type values map[string][]float64

func (v values) median(unit string) float64 {
	all := slices.Sorted(slices.Values(v[unit]))
	if len(all) == 0 {
		return math.NaN()
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// ratio is what a call takes, over what it takes the first way.
func (v values) ratio() float64 {
	ratios := make([]float64, len(v["base-ns"]))
	for i, base := range v["base-ns"] {
		ratios[i] = 1 + v["added-ns"][i]/base
	}
	return values{"": ratios}.median("")
}

// group is a benchmark with its sub-benchmarks by driver.
type group struct {
	name string
	ways map[string]values
}

func main() {
	groups, machine, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	write(os.Stdout, groups, machine)
	writeHolds(os.Stdout, groups)
}

func read(r io.Reader) (groups []*group, machine string, err error) {
	config := map[string]string{}
	procs := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		for _, key := range []string{"cpu", "goos", "goarch"} {
			if value, ok := strings.CutPrefix(lines.Text(), key+": "); ok {
				config[key] = value
			}
		}
		fields := strings.Fields(lines.Text())
		name, way, ok := strings.Cut(lines.Text(), "/driver=")
		if !ok || !strings.HasPrefix(name, "Benchmark") || len(fields) < 4 {
			continue
		}
		name = strings.TrimPrefix(name, "Benchmark")
		way, _, _ = strings.Cut(way, " ")
		way = strings.TrimSpace(strings.SplitN(way, "\t", 2)[0])
		if w, n, ok := strings.Cut(way, "-"); ok {
			way, procs = w, n
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.name == name })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{name, map[string]values{}})
		}
		v := groups[i].ways[way]
		if v == nil {
			v = values{}
			groups[i].ways[way] = v
		}
		for f := 2; f+1 < len(fields); f += 2 {
			x, err := strconv.ParseFloat(fields[f], 64)
			if err != nil {
				return nil, "", fmt.Errorf("%q: %w", lines.Text(), err)
			}
			v[fields[f+1]] = append(v[fields[f+1]], x)
		}
	}
	if len(groups) == 0 && lines.Err() == nil {
		return nil, "", fmt.Errorf("no benchmark in the input")
	}
	return groups, fmt.Sprintf("%s, GOMAXPROCS %s, %s/%s, %s", config["cpu"], procs, config["goos"], config["goarch"], runtime.Version()), lines.Err()
}

func write(w io.Writer, groups []*group, machine string) {
	fmt.Fprintf(w, "Measured on %s.\n\n", machine)
	slices.SortStableFunc(groups, func(a, b *group) int { return budgetOf(a.name) - budgetOf(b.name) })
	fmt.Fprintln(w, "| benchmark | compared with | fencedsql | budget | kept | others |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	for _, g := range groups {
		base := ""
		for _, name := range bases {
			if base == "" && g.ways[name] != nil {
				base = name
			}
		}
		ours := g.ways["fencedsql"]
		if base == "" || ours == nil {
			continue
		}
		b := g.ways[base]
		budget, kept := judge(g.name, b, ours)
		var others []string
		for _, name := range g.others(base) {
			others = append(others, name+" "+difference(b, g.ways[name]))
		}
		fmt.Fprintf(w, "| %s | %s: %s, %.0f allocs | %s | %s | %s | %s |\n", strings.ReplaceAll(g.name, "/", " "),
			base, duration(ours.median("base-ns")), b.median("allocs/op"), difference(b, ours), budget, kept, strings.Join(others, "; "))
	}
}

// others are the ways beside ours and the one that all are compared with.
func (g *group) others(base string) []string {
	names := slices.Sorted(maps.Keys(g.ways))
	return slices.DeleteFunc(names, func(name string) bool { return name == base || name == "fencedsql" })
}

// perSecond is the unit of the benchmarks of the lease store.
const perSecond = "holds/s"

// writeHolds writes how often a second a key is taken and given back, by the store and otherwise.
func writeHolds(w io.Writer, groups []*group) {
	fmt.Fprintln(w, "\n| benchmark | lease store | others |\n|---|---|---|")
	for _, g := range groups {
		ours := g.ways["fencedsql"].median(perSecond)
		if math.IsNaN(ours) {
			continue
		}
		var others []string
		for _, name := range g.others("") {
			n := g.ways[name].median(perSecond)
			others = append(others, fmt.Sprintf("%s %.0f/s (%.2f ×)", name, n, n/ours))
		}
		fmt.Fprintf(w, "| %s | %.0f/s | %s |\n", strings.ReplaceAll(g.name, "/", " "), ours, strings.Join(others, "; "))
	}
}

// budgetOf is the place of a benchmark's budget among them.
func budgetOf(name string) int {
	for i, b := range budgets {
		if strings.HasPrefix(name, b.begins) && strings.Contains(name, b.has) {
			return i
		}
	}
	return len(budgets)
}

// judge describes the budget of a benchmark, and whether it is kept to the precision that the table shows.
func judge(name string, base, ours values) (budget, kept string) {
	i := budgetOf(name)
	if i == len(budgets) {
		return "", ""
	}
	l, ok := budgets[i], true
	var parts []string
	if l.added > 0 {
		parts = append(parts, fmt.Sprintf("+%.0f ns", l.added))
		ok = ok && ours.median("added-ns") < l.added+0.5
	}
	if l.ratio > 0 {
		parts = append(parts, fmt.Sprintf("%.2f ×", l.ratio))
		ok = ok && ours.ratio() < l.ratio+0.005
	}
	if l.mib > 0 {
		parts = append(parts, fmt.Sprintf("%.0f MiB", l.mib))
		ok = ok && ours.median("MiB") <= l.mib
	}
	if l.allocs {
		parts = append(parts, "+0 allocs")
		ok = ok && ours.median("allocs/op") <= base.median("allocs/op")
	}
	return strings.Join(parts, ", "), map[bool]string{true: "yes", false: "**no**"}[ok]
}

// difference is what a way adds to the first.
func difference(base, v values) string {
	added := v.median("added-ns")
	s := fmt.Sprintf("+%s (%.2f ×)", duration(added), v.ratio())
	if added < 0 {
		s = fmt.Sprintf("−%s (%.2f ×)", duration(-added), v.ratio())
	}
	s += fmt.Sprintf(", %+.0f allocs", v.median("allocs/op")-base.median("allocs/op"))
	if mib := v.median("MiB"); !math.IsNaN(mib) {
		s += fmt.Sprintf(", %.1f MiB", mib)
	}
	return s
}

func duration(ns float64) string {
	if ns < 1000 {
		return fmt.Sprintf("%.0f ns", ns)
	}
	return fmt.Sprintf("%.1f µs", ns/1000)
}
