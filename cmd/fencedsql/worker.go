package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"

	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
)

// workerCommandName is the subcommand that the demo starts its worker processes with:
//
//	fencedsql demo-worker <worker's name> <database>
const workerCommandName = "demo-worker"

// What both workers do: read a chat's messages, have them summarized by a slow service, write the summary.
const (
	chatID   = 42
	readSQL  = "SELECT body FROM messages WHERE chat = ? ORDER BY id"
	writeSQL = "UPDATE chats SET summary = ? WHERE id = ?"
)

// chats is the table that the demo fences.
var chats = fencedsql.Table{Name: "chats", Fence: "fence", Key: []string{"id"}}

// The steps of a worker's work, in order.
const (
	stepClaim = "claim"
	stepRead  = "read"
	stepWrite = "write"
)

// report is what a worker tells the demo after each step: one line of JSON. After stepRead it waits for a line with the
// summary.
type report struct {
	Step    string      `json:"step"`
	Written string      `json:"written"` // the SQL in the worker's program, or its call
	Args    []string    `json:"args"`    // the arguments that go with it, as SQL literals
	Sent    []statement `json:"sent"`    // what became of it
	Lease   string      `json:"lease"`   // the key of the lease at hand
	Fence   lease.Fence `json:"fence"`
	Rows    int64       `json:"rows"` // read or changed

	Error   string                 `json:"error,omitempty"`
	Fenced  bool                   `json:"fenced,omitempty"`  // errors.Is(err, fencedsql.ErrFenced)
	Refusal *fencedsql.FencedError `json:"refusal,omitempty"` // errors.As
}

func (r *report) fail(err error) {
	if err != nil {
		r.Error = err.Error()
		r.Fenced = errors.Is(err, fencedsql.ErrFenced)
		errors.As(err, &r.Refusal)
	}
}

// workerCommand is a worker process. It exits with 0 when it has reported its last step, a refusal too.
func workerCommand(args []string, std streams) int {
	if len(args) != 2 {
		fmt.Fprintf(std.err, "fencedsql %s: the demo starts it\n", workerCommandName)
		return exitUsage
	}
	if err := work(context.Background(), args[1], std.in, std.out); err != nil {
		fmt.Fprintf(std.err, "fencedsql demo: worker %s: %v\n", args[0], err)
		return exitFailed
	}
	return exitOK
}

// work is the program of a worker.
func work(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	recorder := &recorder{}
	connector, err := fencedsql.NewConnector(recordingConnector{dataSource(path), recorder}, fencedsql.WithTables(chats))
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()

	var held *lease.Lease
	tell := func(r report, err error) error {
		r.Sent = recorder.take()
		r.Lease, r.Fence = held.Key(), held.Fence()
		r.fail(err)
		return errors.Join(json.NewEncoder(out).Encode(r), err)
	}

	held, err = fencedsql.Claim(ctx, db, chats.Name, chatID)
	if err := tell(report{Step: stepClaim, Written: fmt.Sprintf("fencedsql.Claim(ctx, db, %q, %d)", chats.Name, chatID)}, err); err != nil {
		return err
	}
	defer held.Lose(nil)
	ctx = held.Context(ctx) // every statement from here on carries the lease

	messages, err := readMessages(ctx, db)
	read := report{Step: stepRead, Written: readSQL, Args: []string{literal(chatID)}, Rows: int64(len(messages))}
	if err := tell(read, err); err != nil {
		return err
	}
	summary, err := bufio.NewReader(in).ReadString('\n') // here the worker waits, however long it takes
	if err != nil {
		return fmt.Errorf("no summary came: %w", err)
	}
	summary = strings.TrimSuffix(summary, "\n")

	write := report{Step: stepWrite, Written: writeSQL, Args: []string{literal(summary), literal(chatID)}}
	res, err := db.ExecContext(ctx, writeSQL, summary, chatID)
	if err == nil {
		write.Rows, err = res.RowsAffected()
	}
	if err := tell(write, err); !errors.Is(err, fencedsql.ErrFenced) {
		return err
	}
	return nil // a stale holder stops
}

func readMessages(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, readSQL, chatID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var messages []string
	for rows.Next() {
		var body string
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		messages = append(messages, body)
	}
	return messages, rows.Err()
}

// dataSource is the file's name for go-sqlite3: a URI, so that no character of the folder's name has a meaning.
func dataSource(path string) string {
	return (&url.URL{Scheme: "file", Path: path}).String()
}
