package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
)

// answer is a Querier that answers one question.
type answer struct {
	rows [][]driver.Value
	err  error
}

func (a answer) Query(context.Context, string, ...driver.Value) ([][]driver.Value, error) {
	return a.rows, a.err
}

var checked = dialects.CheckedTable{Name: dialects.Name{Table: "j"}, Fence: "fence", Key: []string{"id"}}

// TestCheckOfView: where the name is taken, a CREATE TABLE mends nothing.
func TestCheckOfView(t *testing.T) {
	for _, kind := range []string{"view", "virtual", "shadow"} {
		_, problem, err := dialect{}.Check(t.Context(), answer{rows: [][]driver.Value{{"main", kind, "[]"}}}, checked)
		if err != nil || problem == nil || !strings.Contains(problem.Reason, "it is a "+kind) || problem.DDL != "" {
			t.Errorf("%s: %+v, %v", kind, problem, err)
		}
	}
	_, problem, err := dialect{}.Check(t.Context(), answer{}, checked)
	if err != nil || problem == nil || !strings.HasPrefix(problem.DDL, "CREATE TABLE j (id NOT NULL, fence TEXT NOT NULL") {
		t.Errorf("%+v, %v", problem, err)
	}
}

// TestTooOld has the errors of SQLite 3.36, and of a 3.37 without JSON.
func TestTooOld(t *testing.T) {
	for text, old := range map[string]bool{
		"no such table: pragma_table_list":                         true,
		"SQL logic error: no such function: json_extract (1)":      true,
		"no such table: main.j":                                    false,
		"database is locked (5) (SQLITE_BUSY)":                     false,
		"no such function: json_each_of_mine in pragma_table_list": false,
	} {
		cause := errors.New(text)
		_, _, err := dialect{}.Check(t.Context(), answer{err: cause}, checked)
		if !errors.Is(err, cause) || strings.Contains(err.Error(), "SQLite 3.38 or newer") != old {
			t.Errorf("%s: %v", text, err)
		}
	}
}
