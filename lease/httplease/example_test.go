package httplease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/mattn/go-sqlite3"

	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/httplease"
)

// A service that keeps the summaries in a fenced table of its own, and two callers, of whom the first was paused for
// longer than its lease.
func Example() {
	db, remove := summaries()
	defer remove()

	service := httptest.NewServer(httplease.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := db.ExecContext(r.Context(), "UPDATE chats SET summary = ? WHERE id = ?", r.FormValue("summary"), 42)
		switch {
		case errors.Is(err, fencedsql.ErrFenced):
			http.Error(w, "a newer lease wrote this summary", http.StatusConflict)
		case errors.Is(err, fencedsql.ErrNoLease):
			http.Error(w, "a summary is written under a lease", http.StatusPreconditionRequired)
		case err != nil:
			http.Error(w, "the database failed", http.StatusInternalServerError)
		default:
			fmt.Fprintln(w, "written")
		}
	})))
	defer service.Close()

	client := &http.Client{Transport: &httplease.Transport{}}
	send := func(ctx context.Context, summary string) {
		form := strings.NewReader(url.Values{"summary": {summary}}.Encode())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, form)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		reason, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.StatusCode, strings.TrimSpace(string(reason)))
	}
	ctx := context.Background()
	paused := lease.New("chat/42", lease.Fence{Epoch: 1, Count: 7})
	next := lease.New("chat/42", lease.Fence{Epoch: 1, Count: 8})
	send(next.Context(ctx), "the newer")
	send(paused.Context(ctx), "the older")
	send(ctx, "no lease at all")

	var summary string
	err := db.QueryRow("SELECT summary FROM chats WHERE id = 42").Scan(&summary)
	fmt.Println(summary, err)
	// Output:
	// 200 written
	// 409 a newer lease wrote this summary
	// 428 a summary is written under a lease
	// the newer <nil>
}

// summaries is a database with a fenced table, in a file of its own.
func summaries() (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "httplease")
	if err != nil {
		log.Fatal(err)
	}
	db, err = fencedsql.Open("sqlite3", filepath.Join(dir, "app.db"), fencedsql.WithTables(
		fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}))
	if err != nil {
		log.Fatal(err)
	}
	_, err = db.ExecContext(fencedsql.Unfenced(context.Background()), `
		CREATE TABLE chats (
			id            INTEGER PRIMARY KEY,
			summary       TEXT,
			summary_fence TEXT NOT NULL DEFAULT '0000000000000000000000000000000000000000'
		);
		INSERT INTO chats (id, summary) VALUES (42, '')`)
	if err != nil {
		log.Fatal(err)
	}
	return db, func() { db.Close(); os.RemoveAll(dir) }
}
