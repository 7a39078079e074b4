package sqlstore

import (
	"context"
	"database/sql"
	"sync"
)

// prepared are the statements that were sent before, where that saves a round trip or the parsing.
type prepared struct {
	sync.Mutex
	byText map[string]*sql.Stmt
	users  int // of those
	closed bool
}

// statement returns nil if the text is to be sent as it is, and else a statement to be given back with done.
func (s *Store) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	p := &s.prepared
	if !s.dialect.prepares {
		return nil, nil
	}
	if stmt, closed := p.use(text, nil); stmt != nil || closed {
		return stmt, nil
	}
	stmt, err := s.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	used, _ := p.use(text, stmt)
	if used != stmt { // another was faster, or Close
		stmt.Close()
	}
	return used, nil
}

// use returns the text's statement, which stmt becomes if there is none. There is none after close.
func (p *prepared) use(text string, stmt *sql.Stmt) (used *sql.Stmt, closed bool) {
	p.Lock()
	defer p.Unlock()
	if p.closed {
		return nil, true
	}
	if used = p.byText[text]; used == nil && stmt != nil {
		if p.byText == nil {
			p.byText = make(map[string]*sql.Stmt)
		}
		used, p.byText[text] = stmt, stmt
	}
	if used != nil {
		p.users++
	}
	return used, false
}

func (p *prepared) done() {
	p.Lock()
	defer p.Unlock()
	p.users--
	p.sweep()
}

func (p *prepared) close() {
	p.Lock()
	defer p.Unlock()
	p.closed = true
	p.sweep()
}

// sweep closes the statements when the last use is over: Stmt.Close waits for each that is on its way, and one that has
// yet to be sent fails.
func (p *prepared) sweep() {
	if !p.closed || p.users > 0 {
		return
	}
	for _, stmt := range p.byText {
		stmt.Close()
	}
	p.byText = nil
}

// exec returns how many rows the statement changed.
func (s *Store) exec(ctx context.Context, text string, args ...any) (int64, error) {
	res, err := s.send(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (s *Store) send(ctx context.Context, text string, args ...any) (sql.Result, error) {
	stmt, err := s.statement(ctx, text)
	switch {
	case err != nil:
		return nil, err
	case stmt != nil:
		defer s.prepared.done()
		return stmt.ExecContext(ctx, args...)
	}
	return s.db.ExecContext(ctx, text, args...)
}

// rows sends a query and gives each of its rows to scan. It reads on to the end, where a commit that failed is told:
// QueryRow would not see it.
func (s *Store) rows(ctx context.Context, text string, args []any, scan func(*sql.Rows) error) error {
	stmt, err := s.statement(ctx, text)
	if err != nil {
		return err
	}
	var rows *sql.Rows
	if stmt != nil {
		defer s.prepared.done()
		rows, err = stmt.QueryContext(ctx, args...)
	} else {
		rows, err = s.db.QueryContext(ctx, text, args...)
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// query reads at most one row.
func (s *Store) query(ctx context.Context, text string, args []any, dest ...any) (found bool, err error) {
	err = s.rows(ctx, text, args, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	})
	return found && err == nil, err
}
