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
	closed bool
}

// statement returns nil if the text is to be sent as it is.
func (s *Store) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	p := &s.prepared
	p.Lock()
	stmt, none := p.byText[text], !s.dialect.prepares || p.closed
	p.Unlock()
	if stmt != nil || none {
		return stmt, nil
	}
	stmt, err := s.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	p.Lock()
	defer p.Unlock()
	if other := p.byText[text]; other != nil || p.closed {
		stmt.Close()
		return other, nil
	}
	if p.byText == nil {
		p.byText = make(map[string]*sql.Stmt)
	}
	p.byText[text] = stmt
	return stmt, nil
}

func (p *prepared) close() {
	p.Lock()
	defer p.Unlock()
	p.closed = true
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
