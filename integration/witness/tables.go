// Package witness has the fenced tables that the suite writes to, and a
// witness in each engine: triggers that record every row written without the
// fence of the lease that the witness was told of, or over a newer one. A
// statement that is undone takes its records with it.
//
// It links no database driver, so that its own fuzz test builds fast.
package witness

import (
	"database/sql"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
)

// Tables are the fenced tables.
var Tables = []fencedsql.Table{
	{Name: "j", Key: []string{"id"}},
	{Name: "pair", Fence: "pair_fence", Key: []string{"a", "b"}},
	{Name: "nokey"},
	{Name: "onlyonce", Key: []string{"id"}, Once: true},
	{Name: "counted", Key: []string{"id"}, Encoding: lease.Int64},
}

// Rows are the statements after which the tables hold what they do at the
// beginning of each case: in j, as in all others, row 1 has fence 5 and row 2
// has fence 7. The witness knows no lease and has seen nothing.
var Rows = []string{
	`UPDATE witness SET fence = NULL`,
	`DELETE FROM j`, `DELETE FROM pair`, `DELETE FROM nokey`, `DELETE FROM onlyonce`, `DELETE FROM counted`, `DELETE FROM src`, `DELETE FROM plain`,
	`INSERT INTO j (id, v, n, fence) VALUES (1, 'a', 10, '` + Text(5) + `'), (2, 'b', 20, '` + Text(7) + `')`,
	`INSERT INTO pair (a, b, v, pair_fence) VALUES (1, 1, 'a', '` + Text(5) + `'), (1, 2, 'b', '` + Text(7) + `')`,
	`INSERT INTO nokey (id, v, fence) VALUES (1, 'a', '` + Text(5) + `'), (2, 'b', '` + Text(7) + `')`,
	`INSERT INTO onlyonce (id, v, fence) VALUES (1, 'a', '` + Text(5) + `'), (2, 'b', '` + Text(7) + `')`,
	`INSERT INTO counted (id, v, fence) VALUES (1, 'a', 5), (2, 'b', 7)`,
	`INSERT INTO src (id, v, n, fence) VALUES (1, 's1', 1, '` + Text(99) + `'), (2, 's2', 2, '` + Text(99) + `'), (3, 's3', 3, '` + Text(99) + `')`,
	`INSERT INTO plain (id, v) VALUES (1, 'p')`,
	`DELETE FROM violations`,
}

// Text is fence n as the tables store it.
func Text(n uint64) string { return lease.Fence{Count: n}.Text() }

// Lease is the statement that tells the witness of the lease with fence n.
func Lease(n uint64) string { return `UPDATE witness SET fence = '` + Text(n) + `'` }

// Render shows all rows and closes them: columns by "|", rows by ", ", fences
// without their zeros.
func Render(t testing.TB, rs *sql.Rows) string {
	t.Helper()
	defer rs.Close()
	cols, err := rs.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rs.Next() {
		vals := make([]any, len(cols))
		for i := range vals {
			vals[i] = new(sql.NullString)
		}
		if err := rs.Scan(vals...); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, len(cols))
		for i := range vals {
			s := vals[i].(*sql.NullString)
			parts[i] = s.String
			if !s.Valid {
				parts[i] = "NULL"
			}
			if len(parts[i]) == 40 {
				parts[i] = "f" + strings.TrimLeft(parts[i], "0")
			}
		}
		lines = append(lines, strings.Join(parts, "|"))
	}
	if err := rs.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, ", ")
}
