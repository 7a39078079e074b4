package mysql

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
)

// TestCorpus reads the statements of MariaDB's own test suite, if
// FENCEDSQL_CORPUS is the folder that has them: most must come out as complete
// writes, and all of them with spans that hold together.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("FENCEDSQL_CORPUS")
	if dir == "" {
		t.Log("FENCEDSQL_CORPUS is not set: no statements to try")
		return
	}
	f, err := os.Open(filepath.Join(dir, "mysql.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type tally struct{ complete, refused, failed int }
	tallies := map[string]*tally{}
	reasons := map[string]int{}
	total := tally{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ SQL string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		verb := strings.ToUpper(strings.Fields(line.SQL)[0])
		if tallies[verb] == nil {
			tallies[verb] = &tally{}
		}
		script, err := dialect{}.Parse(line.SQL, 0)
		counts := []*tally{tallies[verb]}
		if verb == "INSERT" || verb == "UPDATE" || verb == "DELETE" {
			counts = append(counts, &total)
		}
		for _, c := range counts {
			switch {
			case err != nil:
				c.failed++
			case slices.ContainsFunc(script.Statements, func(st dialects.Statement) bool {
				return slices.ContainsFunc(st.Writes, func(w dialects.Write) bool { return w.Reason != "" })
			}):
				c.refused++
			default:
				c.complete++
			}
		}
		if err != nil {
			reasons[strings.TrimRight(err.Error(), "0123456789")]++
			t.Logf("%.160s: %v", line.SQL, err)
			continue
		}
		sound(t, line.SQL, script)
		if problem := spliced(line.SQL, 0, script); problem != "" {
			t.Error(problem)
		}
		for _, st := range script.Statements {
			if st.Writes == nil && verb != "WITH" {
				t.Errorf("no write in %.160s", line.SQL)
			}
			for _, w := range st.Writes {
				if w.Reason != "" && verb != "REPLACE" {
					t.Logf("%.160s: %s", line.SQL, w.Reason)
				}
				if w.Reason != "" {
					reasons[w.Reason]++
				}
			}
		}
	}
	for verb, c := range tallies {
		t.Logf("%-8s complete %4d, refused %3d, not read %3d", verb, c.complete, c.refused, c.failed)
	}
	for r, n := range reasons {
		t.Logf("%4d × %s", n, r)
	}
	n := total.complete + total.refused + total.failed
	t.Logf("INSERT, UPDATE and DELETE: %d of %d complete, %.1f %%", total.complete, n, 100*float64(total.complete)/float64(n))
	if total.complete*100 < n*95 {
		t.Error("less than 95 % are complete")
	}
}
