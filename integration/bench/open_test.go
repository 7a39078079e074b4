package bench

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/XSAM/otelsql"
	"github.com/mattn/go-sqlite3"
	"github.com/ngrok/sqlmw"

	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	_ "github.com/fencedsql/fencedsql/dialects/postgres"
	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
)

func init() {
	sql.Register("sqlmw noop", sqlmw.Driver(noopDriver{}, sqlmw.NullInterceptor{}))
	sql.Register("sqlmw sqlite3", sqlmw.Driver(&sqlite3.SQLiteDriver{}, sqlmw.NullInterceptor{}))
}

// engine is what the statements run on.
type engine struct {
	name, driver, dsn, dialect string
}

var (
	noop   = engine{"noop", "noop", "", "unchecked sqlite"}
	memory = engine{"sqlite", "sqlite3", ":memory:", "sqlite"}
)

// chats is the fenced table.
var chats = fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}

// tables are n fenced tables, chats among them.
func tables(n int) []fencedsql.Table {
	out := []fencedsql.Table{chats}
	for i := range n - 1 {
		out = append(out, fencedsql.Table{Name: fmt.Sprintf("table_%d", i), Fence: "fence", Key: []string{"id"}})
	}
	return out
}

const rowsInChats = 1000

// open opens the engine through a wrapper. SQLite gets its tables.
func (e engine) open(tb testing.TB, wrapper string, tables []fencedsql.Table) *sql.DB {
	tb.Helper()
	var db *sql.DB
	var err error
	switch wrapper {
	case "bare", "byhand":
		db, err = sql.Open(e.driver, e.dsn)
	case "fencedsql":
		db, err = fencedsql.Open(e.driver, e.dsn, fencedsql.WithTables(tables...), fencedsql.WithDialect(e.dialect))
	case "sqlmw":
		db, err = sql.Open("sqlmw "+e.driver, e.dsn)
	case "otelsql":
		db, err = otelsql.Open(e.driver, e.dsn)
	default:
		tb.Fatalf("no wrapper %q", wrapper)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	if e == memory {
		db.SetMaxOpenConns(1) // each connection has a memory of its own
		for _, text := range []string{
			`CREATE TABLE notes (id INTEGER PRIMARY KEY, seen INTEGER)`,
			`CREATE TABLE chats (id INTEGER PRIMARY KEY, owner INTEGER NOT NULL, seen INTEGER, summary TEXT,
				summary_fence TEXT NOT NULL DEFAULT '')`,
			`CREATE INDEX chats_owner ON chats (owner)`,
			fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
				INSERT INTO chats (id, owner, summary) SELECT i, i / 10, 'nothing yet' FROM n`, rowsInChats),
		} {
			if _, err := db.ExecContext(fencedsql.Unfenced(context.Background()), text); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return db
}

// holder is the lease that the fenced writes are made under, and what a program that fences by hand makes of it.
var (
	holder       = lease.New("chat/42", lease.Fence{Epoch: 1, Count: 7})
	fence, bound = lease.Fence{Epoch: 1, Count: 7}.Text(), lease.Fence{Epoch: 1, Count: 8}.Text()
)
