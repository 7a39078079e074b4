package postgres

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
)

// corpus reads the statements of PostgreSQL's own regression tests from the
// folder named by FENCEDSQL_CORPUS, or nothing when it is not set.
func corpus(t testing.TB) []string {
	dir := os.Getenv("FENCEDSQL_CORPUS")
	if dir == "" {
		t.Log("FENCEDSQL_CORPUS is not set: the corpus is not read")
		return nil
	}
	f, err := os.Open(filepath.Join(dir, "postgres.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var texts []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			SQL string `json:"sql"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, line.SQL)
	}
	if err := lines.Err(); err != nil || len(texts) == 0 {
		t.Fatalf("%d statements, %v", len(texts), err)
	}
	return texts
}

// TestCorpus wants every text that the parser accepts to be read whole: spans
// at token borders, and a write for every verb of DML. Only the forms that are
// never fenced may have a reason.
func TestCorpus(t *testing.T) {
	texts := corpus(t)
	if texts == nil {
		return
	}
	var read, dml, complete int
	reasons := map[string]int{}
	for _, text := range texts {
		script, err := dialect{}.Parse(text, 0)
		if err != nil {
			if _, perr := parse(text, 0); perr == nil {
				t.Errorf("%v, although the parser takes it: %s", err, text)
			}
			continue
		}
		read++
		inspect(t, text, script)
		spliceAll(t, text, script)
		for _, st := range script.Statements {
			switch verb, _, _ := strings.Cut(strings.ToLower(st.Of(text)), " "); verb {
			case "insert", "update", "delete", "merge":
				if len(st.Writes) == 0 {
					t.Errorf("no write in: %s", text)
				}
			}
			for _, w := range st.Writes {
				if w.Op != dialects.Other {
					dml++
					if w.Reason == "" {
						complete++
					}
				}
				if w.Reason != "" {
					reasons[w.Reason]++
				}
				if strings.Contains(w.Reason, "told apart") {
					t.Errorf("%s in: %s", w.Reason, text)
				}
			}
		}
	}
	if complete*100 < dml*95 {
		t.Errorf("too few writes are complete: %d of %d", complete, dml)
	}
	t.Logf("%d of %d texts read; %d of %d writes of DML complete (%.1f %%)", read, len(texts), complete, dml, 100*float64(complete)/float64(dml))
	for r, n := range reasons {
		t.Logf("%4d × %s", n, r)
	}
}
