package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// DDL returns the statements that make the store's tables, for those who run migrations themselves and then open the
// store [WithoutMigrate]. They may be run again. The dialect is "sqlite", "postgres" or "mysql".
func DDL(dialect string, opts ...Option) ([]string, error) {
	d, err := dialectNamed(dialect)
	if err != nil {
		return nil, err
	}
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	return d.statements(c.names).ddl, nil
}

// Migrate makes the store's tables, unless they are there; [Open] calls it. It may be called any number of times, also
// by many processes at once. After an error a retry is safe.
func (s *Store) Migrate(ctx context.Context) error {
	if _, err := s.version(ctx); err != nil { // else it would ask in vain for the right to create
		if err := persist(ctx, func() error { return s.create(ctx) }); err != nil {
			return fmt.Errorf("sqlstore: Migrate: %w", err)
		}
	}
	var v int
	err := persist(ctx, func() (err error) {
		v, err = s.version(ctx)
		return err
	})
	if err == nil && v != version {
		err = fmt.Errorf("the tables are of version %d, and this package is of version %d", v, version)
	}
	if err != nil {
		return fmt.Errorf("sqlstore: Migrate: %w", err)
	}
	return nil
}

func (s *Store) create(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if s.dialect.before != "" {
		if _, err := tx.ExecContext(ctx, s.dialect.before); err != nil {
			return err
		}
	}
	for _, text := range s.text.ddl {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s *Store) version(ctx context.Context) (v int, err error) {
	err = s.db.QueryRowContext(ctx, s.text.check).Scan(&v)
	return v, err
}

// persist calls f until it returns something else than a transient error, for ten seconds at most.
func persist(ctx context.Context, f func() error) error {
	begun := time.Now()
	for {
		err := f()
		if !transient(err) || time.Since(begun) > 10*time.Second || pause(ctx, jitter(20*time.Millisecond)) != nil {
			return err
		}
	}
}

// jitter gives d to 1.5 d.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
