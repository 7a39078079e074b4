package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

// A store in a SQLite file of its own. Two programs want the same key.
func Example() {
	dir, err := os.MkdirTemp("", "sqlstore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	open := func(owner string) (*sqlstore.Store, func()) {
		db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "kv.db")+"?_journal_mode=WAL&_busy_timeout=5000")
		if err != nil {
			log.Fatal(err)
		}
		store, err := sqlstore.Open(ctx, db, sqlstore.WithOwner(owner))
		if err != nil {
			log.Fatal(err)
		}
		return store, func() { store.Close(); db.Close() }
	}
	one, closeOne := open("worker 1")
	defer closeOne()
	two, closeTwo := open("worker 2")
	defer closeTwo()

	err = one.Locks("summaries", 15*time.Second).Hold(ctx, "chat/42", func(ctx context.Context, l *lease.Lease) error {
		// Statements with this ctx carry the lease.
		_, err := two.Locks("summaries", 15*time.Second).TryAcquire(ctx, "chat/42")
		var held *sqlstore.HeldError
		if errors.As(err, &held) {
			fmt.Println("held by", held.Owner)
		}
		return nil
	})
	fmt.Println(err)
	err = two.Locks("summaries", 15*time.Second).Hold(ctx, "chat/42", func(context.Context, *lease.Lease) error {
		fmt.Println("held by worker 2")
		return nil
	})
	fmt.Println(err)
	// Output:
	// held by worker 1
	// <nil>
	// held by worker 2
	// <nil>
}
