package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// statement is a statement as it reached the wrapped driver.
type statement struct {
	Text    string   `json:"text"`
	Args    []string `json:"args"` // as SQL literals
	Exec    bool     `json:"exec"`
	Changed int64    `json:"changed"` // rows, if Exec
	Error   string   `json:"error,omitempty"`
}

// asks tells the reads by which fencedsql gets to know a table and a connection from the statements of the story.
func (s statement) asks() bool {
	return !s.Exec && s.Error == "" && slices.ContainsFunc(
		[]string{"pragma_", "sqlite_schema", "pg_catalog.", "information_schema.", "current_setting(", "@@SESSION"},
		func(mark string) bool { return strings.Contains(s.Text, mark) })
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

// add keeps a statement. One that the driver passed on comes back another way.
func (r *recorder) add(s statement, err error) {
	if errors.Is(err, driver.ErrSkip) {
		return
	}
	if err != nil {
		s.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, s)
}

// executed keeps a statement that changes rows.
func (r *recorder) executed(text string, args []driver.NamedValue, res driver.Result, err error) error {
	s := statement{Text: text, Args: literals(args), Exec: true}
	if err == nil {
		s.Changed, err = res.RowsAffected()
	}
	r.add(s, err)
	return err
}

// recordingConnector opens connections that record. Given to fencedsql.NewConnector it stands between fencedsql and the
// driver, and so sees what fencedsql sends.
type recordingConnector struct {
	driver.Connector
	recorder *recorder
}

func (c recordingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := inner.(fullConn)
	if !ok {
		inner.Close()
		return nil, fmt.Errorf("a connection of type %T lacks what the demo needs", inner)
	}
	conn := recordingConn{full, c.recorder}
	if auto, ok := inner.(autoCommitter); ok {
		return recordingSQLiteConn{conn, auto}, nil
	}
	return conn, nil
}

// fullConn is what the connections of all three drivers have.
type fullConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
}

// recordingConn records each way in which a text is sent.
type recordingConn struct {
	fullConn
	recorder *recorder
}

func (c recordingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.fullConn.ExecContext(ctx, text, args)
	err = c.recorder.executed(text, args, res, err)
	return res, err
}

func (c recordingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.fullConn.QueryContext(ctx, text, args)
	c.recorder.add(statement{Text: text, Args: literals(args)}, err)
	return rows, err
}

// PrepareContext records a text that cannot be prepared, and has the others recorded when they are sent with arguments.
func (c recordingConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	st, err := c.fullConn.PrepareContext(ctx, text)
	if err != nil {
		c.recorder.add(statement{Text: text}, err)
		return nil, err
	}
	full, ok := st.(fullStmt)
	if !ok {
		st.Close()
		return nil, fmt.Errorf("a statement of type %T lacks what the demo needs", st)
	}
	return recordingStmt{full, text, c}, nil
}

// The rest of what database/sql asks of a connection, as if it were not there where it is not.

func (c recordingConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c recordingConn) ResetSession(ctx context.Context) error {
	if resetter, ok := c.fullConn.(driver.SessionResetter); ok {
		return resetter.ResetSession(ctx)
	}
	return nil
}

func (c recordingConn) IsValid() bool {
	validator, ok := c.fullConn.(driver.Validator)
	return !ok || validator.IsValid()
}

// autoCommitter is a connection of go-sqlite3, whose own type has no methods in a build without cgo.
type autoCommitter interface{ AutoCommit() bool }

type recordingSQLiteConn struct {
	recordingConn
	autoCommitter
}

// fullStmt is what the statements of all three drivers have.
type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type recordingStmt struct {
	fullStmt
	text string
	conn recordingConn
}

func (s recordingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	res, err := s.fullStmt.ExecContext(ctx, args)
	err = s.conn.recorder.executed(s.text, args, res, err)
	return res, err
}

func (s recordingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.fullStmt.QueryContext(ctx, args)
	s.conn.recorder.add(statement{Text: s.text, Args: literals(args)}, err)
	return rows, err
}

func (s recordingStmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.fullStmt.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
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
