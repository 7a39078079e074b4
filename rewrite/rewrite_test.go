package rewrite_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	_ "github.com/fencedsql/fencedsql/dialects/postgres"
	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/rewrite"
)

var update = flag.Bool("update", false, "write what the rewriter does into the dialects' testdata")

// tables are registered in the tests of plans. Their columns are id, v, n and
// the fence, in that order.
var tables = []rewrite.Table{
	{Name: "j", Fence: "fence", Key: []string{"id"}},
	{Name: "app.pair", Fence: "pair_fence", Key: []string{"a", "b"}},
	{Name: "nokey", Fence: "fence"},
	{Name: `"odd ""name"`, Fence: "order", Key: []string{"select"}},
	{Name: "counted", Fence: "fence", Key: []string{"id"}, Encoding: lease.Int64},
}

func columns(t *rewrite.Table, _ dialects.Name, _ int) []string {
	return []string{"id", "v", "n", t.Fence}
}

func rewriter(t testing.TB, dialect string, tables []rewrite.Table) *rewrite.Rewriter {
	t.Helper()
	d, err := dialects.Get(dialect)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rewrite.New(d, tables)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPlans compares the plans of each dialect's testdata/plans.txt: a text,
// what becomes of it, and what is sent. Run with -update to write them.
func TestPlans(t *testing.T) {
	for _, dialect := range dialects.Names() {
		t.Run(dialect, func(t *testing.T) {
			r := rewriter(t, dialect, tables)
			path := filepath.Join("..", "dialects", dialect, "testdata", "plans.txt")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			n := 0
			for _, block := range strings.Split(string(data), "\n=== ") {
				block = strings.TrimPrefix(block, "=== ")
				title, rest, ok := strings.Cut(block, "\n")
				text, want, ok2 := strings.Cut(rest, "\n--- ")
				if !ok || !ok2 {
					if text, want, ok2 = rest, "", *update; !ok || !ok2 {
						t.Fatalf("block %q is not a title, a text and a plan", block)
					}
					text = strings.TrimSuffix(text, "\n")
				}
				n++
				p := r.Plan(text, 0, columns)
				got := show(p)
				if p.Loose {
					got += "\nfor other types " + show(r.Loose(text, 0))
				}
				if want = strings.TrimSuffix(want, "\n"); got != want && !*update {
					t.Errorf("%s\n%s\n--- is\n%s\n--- want\n%s", title, text, got, want)
				}
				fmt.Fprintf(&out, "=== %s\n%s\n--- %s\n", title, text, got)
			}
			if n < 30 {
				t.Errorf("only %d plans", n)
			}
			if *update {
				if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func show(p *rewrite.Plan) string {
	var b strings.Builder
	query := func(title, text string, args []rewrite.Arg) {
		fmt.Fprintf(&b, "\n%s%s", title, text)
		if len(args) > 0 {
			b.WriteString("\nargs")
			for _, a := range args {
				switch a {
				case rewrite.FenceArg:
					b.WriteString(" fence")
				case rewrite.BoundArg:
					b.WriteString(" bound")
				case rewrite.NoArg:
					b.WriteString(" -")
				default:
					fmt.Fprintf(&b, " %d", a)
				}
			}
		}
	}
	switch p.Verdict {
	case rewrite.Pass:
		b.WriteString("pass")
		for _, op := range p.Tx {
			if op.Verb == dialects.TxNone {
				continue
			}
			fmt.Fprintf(&b, " %s", strings.TrimSpace([]string{"", "begin", "commit", "rollback", "savepoint", "release", "rollback-to"}[op.Verb]+" "+op.Name))
		}
	case rewrite.Refuse:
		fmt.Fprintf(&b, "refuse %s\n%s;\n%s", p.Refusal.Table, p.Refusal.Reason, p.Refusal.Hint)
	case rewrite.Fence:
		var names []string
		for _, g := range p.Guards {
			names = append(names, g.Table.Name)
		}
		b.WriteString("fence " + strings.Join(names, ", "))
		for _, f := range []struct {
			on   bool
			name string
		}{{p.Hidden, "hidden column"}, {p.Count, "rows are counted"}, {p.Returns, "rows"}} {
			if f.on {
				b.WriteString(", " + f.name)
			}
		}
		if p.First != nil {
			query("first ", p.First.Text, p.First.Args)
		}
		query("", p.Text, p.Args)
		for _, g := range p.Guards {
			if g.Probe != nil {
				query("probe ", g.Probe.Text, g.Probe.Args)
			}
		}
	}
	return b.String()
}

// TestNames: what names no fenced table is not even parsed.
func TestNames(t *testing.T) {
	r := rewriter(t, "sqlite", []rewrite.Table{{Name: "Chats", Fence: "f"}, {Name: "x1", Fence: "f"}})
	for text, want := range map[string]bool{
		"":                       false,
		"SELECT 1":               false,
		"UPDATE cHaTs SET a = 1": true,
		"UPDATE chat SET s = 1":  false,
		"cccccchatschat":         true,
		"chat":                   false,
		"X":                      false,
		"select X1":              true,
		"select x2, X":           false,
		"SELECT 'chat' || 's'":   false,
	} {
		if got := r.Names(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	odd := rewriter(t, "sqlite", []rewrite.Table{{Name: "größe", Fence: "f"}})
	if !odd.Names("SELECT 1") {
		t.Error("a name with letters outside of ASCII may be spelled in many ways, and needs the parser")
	}
}

// corpus reads the statements of one engine at FENCEDSQL_CORPUS.
func corpus(t testing.TB, dialect string) []string {
	t.Helper()
	dir := os.Getenv("FENCEDSQL_CORPUS")
	if dir == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, dialect+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s struct{ SQL string }
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s.SQL)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// atLeast is the share of each engine's DML, outside of the kinds that
// promise 6 refuses, that must be fenced.
var atLeast = map[string]float64{"sqlite": 0.95, "postgres": 0.95, "mysql": 0.85}

// refusedKinds are the reasons that promise 6 names.
var refusedKinds = []string{"REPLACE", "several statements", "MERGE", "itself assigns the fence", "CURRENT OF", "COPY", "TRUNCATE", "EXPLAIN", "PREPARE", "executable comment", "DROP", "LOAD DATA"}

// TestUnreadable: the refusal of a text that cannot be read names the table that stands there as a word.
func TestUnreadable(t *testing.T) {
	r := rewriter(t, "sqlite", []rewrite.Table{{Name: "j", Fence: "f"}, {Name: "app.Chats", Fence: "f"}})
	for text, want := range map[string]string{
		"UPDATE chats JOIN x SET":   "app.Chats",
		"UPDATE J JOIN chats SET":   "j",
		"UPDATE x JOIN chats_y SET": "j", // it may be any
	} {
		p := r.Plan(text, 0, columns)
		if p.Verdict != rewrite.Refuse || p.Refusal.Table != want {
			t.Errorf("%q: %+v", text, p.Refusal)
		}
	}
}

// TestUnlikeTables: one statement has one fence and one bound.
func TestUnlikeTables(t *testing.T) {
	text := "WITH a AS (UPDATE j SET v = 1 WHERE id = 1) UPDATE k SET v = 1 WHERE id = 1"
	for _, k := range []rewrite.Table{{Name: "k", Fence: "f"}, {Name: "k", Fence: "f", Once: true}, {Name: "k", Fence: "f", Encoding: lease.Int64}} {
		r := rewriter(t, "postgres", []rewrite.Table{{Name: "j", Fence: "f"}, k})
		alike := !k.Once && k.Encoding == lease.Text
		if p := r.Plan(text, 0, nil); alike != (p.Verdict == rewrite.Fence) {
			t.Errorf("%+v: verdict %d, %+v", k, p.Verdict, p.Refusal)
		}
	}
}

// TestTooManyParameters: a batch that has all the parameters that the protocol counts has none left for the fence.
func TestTooManyParameters(t *testing.T) {
	r := rewriter(t, "postgres", []rewrite.Table{{Name: "j", Fence: "f"}})
	for _, left := range []int{0, 1} {
		var b strings.Builder
		b.WriteString("INSERT INTO j (v) VALUES ($1)")
		for i := 2; i <= 65535-left; i++ {
			b.WriteString(", ($" + strconv.Itoa(i) + ")")
		}
		p := r.Plan(b.String(), 0, nil)
		if left > 0 != (p.Verdict == rewrite.Fence) || left == 0 && !strings.Contains(p.Refusal.Hint, "fewer rows") {
			t.Errorf("with %d left: %+v", left, p.Refusal)
		}
	}
}

// TestCorpus: of the engines' own test suites, with every table that they
// write registered, no write passes bare, and nearly all are fenced; with no
// table of theirs registered every text comes out as it was.
func TestCorpus(t *testing.T) {
	if os.Getenv("FENCEDSQL_CORPUS") == "" {
		t.Log("FENCEDSQL_CORPUS is not set: no statements to try")
		return
	}
	for _, dialect := range dialects.Names() {
		t.Run(dialect, func(t *testing.T) {
			d, err := dialects.Get(dialect)
			if err != nil {
				t.Fatal(err)
			}
			texts := corpus(t, dialect)
			if len(texts) < 500 {
				t.Fatalf("only %d statements", len(texts))
			}
			var names []rewrite.Table
			writes := map[string]bool{} // the texts that write, by the dialect's own reading
			for _, text := range texts {
				script, err := d.Parse(text, 0)
				if err != nil {
					continue
				}
				for _, st := range script.Statements {
					for _, w := range st.Writes {
						if w.Op == dialects.Other || w.Target.Table == "" {
							continue
						}
						writes[text] = true
						name := `"` + strings.ReplaceAll(w.Target.Table, `"`, `""`) + `"`
						if !slices.ContainsFunc(names, func(t rewrite.Table) bool { return t.Name == name }) {
							names = append(names, rewrite.Table{Name: name, Fence: "fencedsql_fence"})
						}
					}
				}
			}
			r := rewriter(t, dialect, names)
			none := rewriter(t, dialect, []rewrite.Table{{Name: "no_statement_names_this", Fence: "fence"}})
			known := func(t *rewrite.Table, _ dialects.Name, values int) []string {
				var out []string
				for i := range values {
					out = append(out, fmt.Sprintf("c%d", i))
				}
				return append(out, t.Fence)
			}
			fenced, refused := 0, map[string]int{}
			for _, text := range texts {
				if p := none.Plan(text, 0, nil); p.Verdict != rewrite.Pass {
					t.Errorf("not passed with no table of its own registered: %s", text)
				}
				p := r.Plan(text, 0, known)
				switch {
				case p.Verdict == rewrite.Fence:
					fenced++
				case p.Verdict == rewrite.Refuse:
					reason, _, _ := strings.Cut(p.Refusal.Reason, " at byte ")
					refused[reason]++
				case writes[text]:
					t.Errorf("bare: %s", text)
				}
			}
			kinds, others := 0, 0
			for reason, n := range refused {
				if slices.ContainsFunc(refusedKinds, func(k string) bool { return strings.Contains(reason, k) }) {
					kinds += n
				} else {
					others += n
				}
				t.Logf("%5d refused: %s", n, reason)
			}
			share := float64(fenced) / float64(fenced+others)
			t.Logf("%d statements: %d fenced, %d refused by kind, %d by form: %.1f %% of the rest fenced", len(texts), fenced, kinds, others, 100*share)
			if share < atLeast[dialect] {
				t.Errorf("%.1f %% fenced, want %.0f %%", 100*share, 100*atLeast[dialect])
			}
		})
	}
}
