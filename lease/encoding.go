package lease

import (
	"database/sql/driver"
	"fmt"
	"math"
)

// An Encoding is how a table's fence column holds a [Fence]. It keeps order: the column compares two values as the
// fences compare.
type Encoding uint8

const (
	// Text is 40 zero-padded decimal digits ([Fence.Text]) in a text column of at least 40 characters. It holds
	// every fence.
	Text Encoding = iota

	// Int64 is a signed 64-bit integer, such as a BIGINT. It holds the fences of epoch 0 up to 2^63−1, and the last
	// of these cannot write: see [Encoding.Bound].
	Int64
)

// maxInt64 is the last fence that Int64 holds.
var maxInt64 = Fence{Count: math.MaxInt64}

// String returns "text" or "int64".
func (e Encoding) String() string {
	switch e {
	case Text:
		return "text"
	case Int64:
		return "int64"
	}
	return fmt.Sprintf("Encoding(%d)", uint8(e))
}

// Encode returns the value of the fence column for f: a string of 40 digits or an int64. The error wraps [ErrOverflow]
// if f does not fit. It comes before anything is sent; a retry gives the same answer.
func (e Encoding) Encode(f Fence) (driver.Value, error) {
	switch e {
	case Text:
		return f.Text(), nil
	case Int64:
		if maxInt64.Less(f) {
			return nil, fmt.Errorf("%w: %v does not fit the encoding int64, which ends at 2^63-1: use lease.Text and a text column",
				ErrOverflow, f)
		}
		return int64(f.Count), nil
	}
	return nil, e.unknown()
}

// Bound returns the encoding of f + 1. A stored fence must be below it for f's holder to write, so that the holder may
// write its own rows again. The error wraps [ErrOverflow] if f + 1 does not fit, even though f does. It comes before
// anything is sent; a retry gives the same answer.
func (e Encoding) Bound(f Fence) (driver.Value, error) {
	next, err := f.Next()
	switch {
	case e == Text && err != nil:
		return nil, fmt.Errorf("%w: take fences from a source that counts from a smaller epoch", err)
	case e == Int64 && f == maxInt64:
		return nil, fmt.Errorf("%w: %v fits the encoding int64, but its bound, one more, does not: use lease.Text and a text column",
			ErrOverflow, f)
	case e == Int64 && maxInt64.Less(f):
		return e.Encode(f) // whose error names f, not its bound
	}
	return e.Encode(next)
}

// Decode reads a fence column's value as a database driver gives it: text or an integer that is not negative. With the
// encoding [Text], the empty string is the zero fence, since it may be the column's default and sorts below every
// other. NULL and everything else are errors.
func (e Encoding) Decode(v any) (Fence, error) {
	switch e {
	case Text:
		switch s := v.(type) {
		case string:
			if s == "" {
				return Fence{}, nil
			}
		case []byte:
			if s != nil && len(s) == 0 {
				return Fence{}, nil
			}
		}
	case Int64:
	default:
		return Fence{}, e.unknown()
	}
	return fromColumn(v)
}

func (e Encoding) unknown() error {
	return fmt.Errorf("lease: unknown encoding %d: want lease.Text or lease.Int64", uint8(e))
}
