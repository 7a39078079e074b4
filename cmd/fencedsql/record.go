package main

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"
)

// statement is a statement as it reached the wrapped driver.
type statement struct {
	Text    string   `json:"text"`
	Args    []string `json:"args"` // as SQL literals
	Exec    bool     `json:"exec"`
	Changed int64    `json:"changed"` // rows, if Exec
	Error   string   `json:"error,omitempty"`
}

// recorder keeps what was sent.
type recorder struct {
	mu   sync.Mutex
	sent []statement
}

// take returns what was sent since the last call.
func (r *recorder) take() []statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

func (r *recorder) add(s statement, err error) {
	if err != nil {
		s.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, s)
}

// recordingConnector opens connections of go-sqlite3 that record. Given to fencedsql.NewConnector it stands between
// fencedsql and go-sqlite3, and so sees what fencedsql sends.
type recordingConnector struct {
	dsn      string
	recorder *recorder
}

func (c recordingConnector) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	conn, ok := inner.(sqliteConn)
	if !ok {
		return nil, fmt.Errorf("a connection of type %T lacks what go-sqlite3's have", inner)
	}
	return recordingConn{conn, c.recorder}, nil
}

func (c recordingConnector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// sqliteConn is what a connection of go-sqlite3 has. Its own type has no methods in a build without cgo.
type sqliteConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	AutoCommit() bool
}

// recordingConn records each way in which a text is sent.
type recordingConn struct {
	sqliteConn
	recorder *recorder
}

func (c recordingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	s := statement{Text: text, Args: literals(args), Exec: true}
	res, err := c.sqliteConn.ExecContext(ctx, text, args)
	if err == nil {
		s.Changed, err = res.RowsAffected()
	}
	c.recorder.add(s, err)
	return res, err
}

func (c recordingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	s := statement{Text: text, Args: literals(args)}
	rows, err := c.sqliteConn.QueryContext(ctx, text, args)
	c.recorder.add(s, err)
	return rows, err
}

// PrepareContext records the text alone: the demo prepares nothing, and should something be prepared, it shows.
func (c recordingConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	st, err := c.sqliteConn.PrepareContext(ctx, text)
	c.recorder.add(statement{Text: text}, err)
	return st, err
}

func literals(args []driver.NamedValue) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = literal(a.Value)
	}
	return out
}

// literal writes a value as SQL does.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	}
	return fmt.Sprint(v)
}
