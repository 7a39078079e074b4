package main

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

// workerCommandName is the subcommand that the demo starts its worker processes with. A worker reads its job and then
// the summary from its standard input, a line each, and writes reports.
const workerCommandName = "demo-worker"

// What both workers do: hold the chat's key, read its messages, have them summarized by a slow service, write the summary.
const (
	chatID  = 42
	chatKey = "chat/42"
	family  = "summaries"
)

// job is what the demo tells a worker. It has data source names and goes through a pipe, where nobody else reads it.
type job struct {
	Worker string // its name
	TTL    time.Duration
	Try    bool // whether to look first who holds the key
	scene
}

// The steps of a worker's work, in order.
const (
	stepTry   = "try"   // the key is held by another, if that was asked; now the worker waits for it
	stepHold  = "hold"  // the key is held
	stepRead  = "read"  // and now the worker waits for the summary
	stepWrite = "write" // A stale holder's comes back refused. It then takes two more steps:
	stepLost  = "lost"  // what its context says
	stepAgain = "again" // the same write with that context
	stepEnd   = "end"   // what Hold has returned
)

// report is what a worker tells the demo after each step: one line of JSON.
type report struct {
	Step    string        `json:"step"`
	Written string        `json:"written"` // the SQL in the worker's program, or its call
	Args    []string      `json:"args"`    // the arguments that go with it, as SQL literals
	Sent    []statement   `json:"sent"`    // what became of it, but for asked
	Asked   []statement   `json:"asked"`   // what was sent to know the table and the connection
	Lease   string        `json:"lease"`   // the key of the lease at hand
	Fence   lease.Fence   `json:"fence"`
	Rows    int64         `json:"rows"` // read or changed
	Waited  time.Duration `json:"waited,omitempty"`

	Error    string                 `json:"error,omitempty"`
	Fenced   bool                   `json:"fenced,omitempty"`   // errors.Is(err, fencedsql.ErrFenced)
	Lost     bool                   `json:"lost,omitempty"`     // errors.Is(err, lease.ErrLost)
	Canceled bool                   `json:"canceled,omitempty"` // errors.Is(err, context.Canceled)
	Refusal  *fencedsql.FencedError `json:"refusal,omitempty"`  // errors.As
	Holder   string                 `json:"holder,omitempty"`   // who holds the key, of a *sqlstore.HeldError
}

func (r *report) fail(err error) {
	if err == nil {
		return
	}
	r.Error = err.Error()
	r.Fenced = errors.Is(err, fencedsql.ErrFenced)
	r.Lost = errors.Is(err, lease.ErrLost)
	r.Canceled = errors.Is(err, context.Canceled)
	errors.As(err, &r.Refusal)
	var held *sqlstore.HeldError
	if errors.As(err, &held) {
		r.Holder = held.Owner
	}
}

// workerCommand is a worker process. It exits with 0 when it has reported its last step, a refusal too.
func workerCommand(args []string, std streams) int {
	var j job
	in := bufio.NewReader(std.in)
	line, err := in.ReadBytes('\n')
	if err != nil || len(args) > 0 || json.Unmarshal(line, &j) != nil {
		fmt.Fprintf(std.err, "fencedsql %s: the demo starts it\n", workerCommandName)
		return exitUsage
	}
	w := &worker{job: j, in: in, out: json.NewEncoder(std.out)}
	if err := w.work(context.Background()); err != nil {
		fmt.Fprintf(std.err, "fencedsql demo: worker %s: %v\n", j.Worker, err)
		return exitFailed
	}
	return exitOK
}

type worker struct {
	job
	in       *bufio.Reader
	out      *json.Encoder
	recorder recorder
	db       *sql.DB // fenced
	lease    *lease.Lease
}

// work is the program of a worker.
func (w *worker) work(ctx context.Context) error {
	engine, err := engineNamed(w.Engine)
	if err != nil {
		return err
	}
	data, err := engine.connector(w.Data)
	if err != nil {
		return err
	}
	connector, err := fencedsql.NewConnector(recordingConnector{data, &w.recorder}, fencedsql.WithTables(w.table()))
	if err != nil {
		return err
	}
	w.db = sql.OpenDB(connector)
	defer w.db.Close()
	leases, err := engine.open(ctx, w.Leases)
	if err != nil {
		return err
	}
	defer leases.Close()
	store, err := sqlstore.Open(ctx, leases, sqlstore.WithDialect(w.Engine), sqlstore.WithPrefix(w.Prefix), sqlstore.WithOwner("worker "+w.Worker))
	if err != nil {
		return err
	}
	defer store.Close()
	summaries := store.Locks(family, w.TTL)

	if w.Try {
		held, err := summaries.TryAcquire(ctx, chatKey)
		if err == nil {
			err = held.Release(ctx)
		}
		if e := w.tell(report{Step: stepTry, Written: fmt.Sprintf("summaries.TryAcquire(ctx, %q)", chatKey)}, err); e != nil {
			return e
		}
		if err != nil && !errors.Is(err, lease.ErrHeld) {
			return err
		}
	}
	begun := time.Now()
	err = summaries.Hold(ctx, chatKey, func(ctx context.Context, l *lease.Lease) error {
		w.lease = l
		hold := report{Step: stepHold, Written: fmt.Sprintf("summaries.Hold(ctx, %q, work)", chatKey), Waited: time.Since(begun)}
		if err := w.tell(hold, nil); err != nil {
			return err
		}
		return w.summarize(ctx)
	})
	if e := w.tell(report{Step: stepEnd}, err); e != nil {
		return e
	}
	if errors.Is(err, fencedsql.ErrFenced) { // a stale holder stops
		return nil
	}
	return err
}

// summarize is the work under the lease, which ctx carries.
func (w *worker) summarize(ctx context.Context) error {
	messages, err := w.readMessages(ctx)
	read := report{Step: stepRead, Written: w.readText(), Args: []string{literal(chatID)}, Rows: int64(len(messages))}
	if e := w.tell(read, err); e != nil || err != nil {
		return cmp.Or(e, err)
	}
	summary, err := w.in.ReadString('\n') // here the worker waits, however long it takes
	if err != nil {
		return fmt.Errorf("no summary came: %w", err)
	}
	summary = strings.TrimSuffix(summary, "\n")

	// ctx may have ended meanwhile, and database/sql does not send a write whose context has ended. But no program can
	// count on that: between its last look at the context and the arrival of the write it may be stopped as well. This
	// write is one that was past the last look.
	late := w.write(context.WithoutCancel(ctx), stepWrite, summary)
	if !errors.Is(late, fencedsql.ErrFenced) {
		return late
	}
	<-ctx.Done() // at once: the lease ran out long ago
	if err := w.tell(report{Step: stepLost, Written: "context.Cause(ctx)"}, context.Cause(ctx)); err != nil {
		return err
	}
	w.write(ctx, stepAgain, summary)
	return late
}

// write writes the summary and reports it. It returns what the database said.
func (w *worker) write(ctx context.Context, step, summary string) error {
	r := report{Step: step, Written: w.writeText(), Args: []string{literal(summary), literal(chatID)}}
	res, err := w.db.ExecContext(ctx, r.Written, summary, chatID)
	if err == nil {
		r.Rows, err = res.RowsAffected()
	}
	return cmp.Or(w.tell(r, err), err)
}

// tell reports a step, with its error.
func (w *worker) tell(r report, err error) error {
	for _, s := range w.recorder.take() {
		if s.asks() {
			r.Asked = append(r.Asked, s)
		} else {
			r.Sent = append(r.Sent, s)
		}
	}
	r.Lease, r.Fence = w.lease.Key(), w.lease.Fence()
	r.fail(err)
	return w.out.Encode(r)
}

func (w *worker) readMessages(ctx context.Context) ([]string, error) {
	rows, err := w.db.QueryContext(ctx, w.readText(), chatID)
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
