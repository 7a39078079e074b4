package fencedsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
	_ "github.com/mattn/go-sqlite3"
)

// The table and two rows of the examples, in a file of their own.
func exampleFile() (dsn string, remove func()) {
	dir, err := os.MkdirTemp("", "fencedsql")
	if err != nil {
		log.Fatal(err)
	}
	dsn = filepath.Join(dir, "app.db")
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`
		CREATE TABLE chats (
			id            INTEGER PRIMARY KEY,
			summary       TEXT,
			summary_fence TEXT NOT NULL DEFAULT '0000000000000000000000000000000000000000'
		);
		INSERT INTO chats (id, summary) VALUES (42, '');
	`); err != nil {
		log.Fatal(err)
	}
	return dsn, func() { os.RemoveAll(dir) }
}

// Two workers hold the same key, one after the other. The first wakes up late
// and is refused.
func Example() {
	app, remove := exampleFile()
	defer remove()
	ctx := context.Background()

	fencedsql.RegisterTable(fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}})
	db, err := sql.Open("fencedsql", "sqlite3:"+app)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	paused := lease.New("chat/42", lease.Fence{Epoch: 1, Count: 7})
	next := lease.New("chat/42", lease.Fence{Epoch: 1, Count: 8})

	_, err = db.ExecContext(next.Context(ctx), "UPDATE chats SET summary = ? WHERE id = ?", "the newer", 42)
	fmt.Println("next:", err)

	_, err = db.ExecContext(paused.Context(ctx), "UPDATE chats SET summary = ? WHERE id = ?", "the older", 42)
	if errors.Is(err, fencedsql.ErrFenced) {
		fmt.Println("paused: refused, nothing was written")
	}

	_, err = db.ExecContext(ctx, "UPDATE chats SET summary = ? WHERE id = ?", "no lease at all", 42)
	fmt.Println("neither:", errors.Is(err, fencedsql.ErrNoLease))

	var summary string
	err = db.QueryRow("SELECT summary FROM chats WHERE id = 42").Scan(&summary)
	fmt.Println(summary, err)
	// Output:
	// next: <nil>
	// paused: refused, nothing was written
	// neither: true
	// the newer <nil>
}

// A queue worker needs no lock service: it claims the row itself.
func ExampleClaim() {
	app, remove := exampleFile()
	defer remove()
	ctx := context.Background()
	db, err := fencedsql.Open("sqlite3", app, fencedsql.WithTables(
		fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	l, err := fencedsql.Claim(ctx, db, "chats", 42) // whoever claimed it before is refused from here on
	if err != nil {
		log.Fatal(err)
	}
	defer l.Lose(nil)
	_, err = db.ExecContext(l.Context(ctx), "UPDATE chats SET summary = ? WHERE id = ?", "mine", 42)

	fmt.Println(l.Key(), l.Fence(), err)
	// Output: chats/42 1 <nil>
}

// The work holds a key of a lease store, in a SQLite file of its own.
func Example_hold() {
	app, remove := exampleFile()
	defer remove()
	ctx := context.Background()
	db, err := fencedsql.Open("sqlite3", app, fencedsql.WithTables(
		fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	kv, err := sql.Open("sqlite3", filepath.Join(filepath.Dir(app), "kv.db")+"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000")
	if err != nil {
		log.Fatal(err)
	}
	defer kv.Close()

	store, err := sqlstore.Open(ctx, kv) // any *sql.DB: SQLite, PostgreSQL, MySQL, MariaDB
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	summaries := store.Locks("summaries", 15*time.Second)
	err = summaries.Hold(ctx, "42", func(ctx context.Context, l *lease.Lease) error {
		_, err := db.ExecContext(ctx, "UPDATE chats SET summary = ? WHERE id = ?", "held", 42) // fenced: ctx carries l
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

// A lock service of your own tells when its lease is lost.
func ExampleRaise() {
	app, remove := exampleFile()
	defer remove()
	db, err := fencedsql.Open("sqlite3", app, fencedsql.WithTables(
		fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	older := lease.New("chat/42", lease.Fence{Count: 1}).Context(context.Background())
	newer := lease.New("chat/42", lease.Fence{Count: 2}).Context(context.Background())

	// The newer holder has nothing to write yet, and shuts the older one out.
	fmt.Println(fencedsql.Raise(newer, db, "chats", 42))
	_, err = db.ExecContext(older, "DELETE FROM chats WHERE id = ?", 42)
	fmt.Println(err)
	// Output:
	// <nil>
	// fencedsql: fenced: table chats: the lease has fence 1, the row has 2
}

// A migration writes without a lease.
func ExampleUnfenced() {
	app, remove := exampleFile()
	defer remove()
	ctx := context.Background()
	db, err := fencedsql.Open("sqlite3", app, fencedsql.WithTables(
		fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	_, err = db.ExecContext(ctx, "UPDATE chats SET summary = trim(summary)")
	fmt.Println(errors.Is(err, fencedsql.ErrNoLease))
	_, err = db.ExecContext(fencedsql.Unfenced(ctx), "UPDATE chats SET summary = trim(summary)")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Every call of the work carries the lease, and ends when it is lost.
func ExampleErrFenced() {
	app, remove := exampleFile()
	defer remove()
	db, err := fencedsql.Open("sqlite3", app, fencedsql.WithTables(
		fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	work := func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil) // the lease of ctx holds for the whole transaction
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE chats SET summary = summary || '.'"); err != nil {
			return err
		}
		return tx.Commit()
	}

	l := lease.New("chat/42", lease.Fence{Count: 3})
	ctx, cancel := context.WithTimeout(l.Context(context.Background()), time.Minute)
	defer cancel()
	fmt.Println(work(ctx))

	l.Lose(errors.New("the lock service did not answer"))
	fmt.Println(context.Cause(ctx))
	// Output:
	// <nil>
	// lease: lost (key "chat/42"): the lock service did not answer
}
