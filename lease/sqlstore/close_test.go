package sqlstore

import (
	"database/sql"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

// TestCloseMeanwhile: Close does not wait for a statement on its way, and does not make it fail.
func TestCloseMeanwhile(t *testing.T) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "kv.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	s, err := Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	locks := s.Locks("f", time.Hour)
	for range 2 { // the statements are prepared then
		h, err := locks.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h, err := locks.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context()) // the only one
	if err != nil {
		t.Fatal(err)
	}
	released, closed := make(chan error, 1), make(chan error, 1)
	go func() { released <- h.Release(t.Context()) }()
	waiting := db.Stats().WaitCount
	for db.Stats().WaitCount == waiting {
		runtime.Gosched()
	}
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Close waits")
	}
	conn.Close()
	if err := <-released; err != nil {
		t.Error(err)
	}
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM fencedsql_leases WHERE ends > 0").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d leases are left, %v", n, err)
	}
	if n := len(s.prepared.byText); n != 0 {
		t.Errorf("%d statements are left", n)
	}
}
