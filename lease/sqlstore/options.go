package sqlstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// An Option is a setting of [Open] or [DDL].
type Option func(*config) error

type config struct {
	owner    string
	dialect  *dialect
	names    names
	migrated bool
}

// WithOwner names this program in [HeldError] and [Store.List]: at most 255 bytes of UTF-8 without NUL. The default is
// host/process id.
func WithOwner(owner string) Option {
	return func(c *config) error {
		if len(owner) > maxOwner || !utf8.ValidString(owner) || strings.ContainsRune(owner, 0) {
			return fmt.Errorf("sqlstore: owner %.80q is not UTF-8 of at most %d bytes without NUL", owner, maxOwner)
		}
		c.owner = owner
		return nil
	}
}

// WithDialect says what the database is: "sqlite", "postgres" or "mysql" (MariaDB and TiDB too). By default Open asks.
func WithDialect(name string) Option {
	return func(c *config) (err error) {
		c.dialect, err = dialectNamed(name)
		return err
	}
}

// WithPrefix sets how the names of the store's tables begin; the default, "fencedsql_", makes fencedsql_leases and
// fencedsql_epoch. It may have letters, digits and underscores, at most 40. Two prefixes are two stores.
func WithPrefix(prefix string) Option {
	return func(c *config) error {
		c.names.prefix = prefix
		return checkIdentifier("prefix", prefix)
	}
}

// WithSchema puts the tables into a schema (PostgreSQL), a database (MySQL) or an attached database (SQLite) that is
// there already. Its name may have letters, digits and underscores, at most 40.
func WithSchema(schema string) Option {
	return func(c *config) error {
		c.names.schema = schema
		return checkIdentifier("schema", schema)
	}
}

// WithoutMigrate makes Open create nothing: the statements of [DDL] were run before.
func WithoutMigrate() Option {
	return func(c *config) error {
		c.migrated = true
		return nil
	}
}

func checkIdentifier(what, name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	if name == "" || len(name) > 40 || strings.Trim(name, letters) != "" {
		return fmt.Errorf("sqlstore: %s %.80q is not 1 to 40 letters, digits and underscores", what, name)
	}
	return nil
}

func configure(opts []Option) (*config, error) {
	c := &config{names: names{prefix: "fencedsql_"}}
	for _, o := range opts {
		if err := o(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}
