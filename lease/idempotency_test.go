package lease

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// TestIdempotencyKeyStays: these were sent to somebody's provider; a later version makes the same.
func TestIdempotencyKeyStays(t *testing.T) {
	for _, tt := range []struct {
		key     string
		fence   Fence
		purpose string
		want    string
	}{
		{"chat/42", Fence{1, 7}, "pay invoice 17", "0a4a7e60-e01e-822d-84e6-65c105c4905c"},
		{"", Fence{0, 1}, "", "31e35e2d-6160-8850-b270-44854ecfeb82"},
		{"żółw\x00", Fence{math.MaxUint64, math.MaxUint64}, strings.Repeat("long ", 1000), "47d62270-0173-8343-961c-ce4d02335124"},
	} {
		if got := New(tt.key, tt.fence).IdempotencyKey(tt.purpose); got != tt.want {
			t.Errorf("%q, %v, %.20q: %s, want %s", tt.key, tt.fence, tt.purpose, got, tt.want)
		}
	}
}

// TestIdempotencyKeysDiffer: nor is one triple taken for another whose texts, one behind the other, are the same.
func TestIdempotencyKeysDiffer(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	texts := []string{"", "a", "b", "ab", "ba", "aa", "aab", "\x00", "a\x00", "\x00a", "a\x00b", "1", "11", "7", "k", "k/7", "\xff", "é", "e\u0301"}
	for _, n := range []int{1, 2, 255, 256} {
		texts = append(texts, string([]byte{0, 0, 0, 0, 0, 0, byte(n >> 8), byte(n)})+"a") // like a length
	}
	fences := []Fence{{0, 1}, {0, 2}, {0, 11}, {1, 0}, {1, 1}, {0, 1 << 56}, {0, 'a'}, {'a', 0}, {math.MaxUint64, math.MaxUint64}}
	seen := map[string]string{}
	for _, key := range texts {
		for _, f := range fences {
			for _, purpose := range texts {
				id := New(key, f).IdempotencyKey(purpose)
				if !form.MatchString(id) {
					t.Fatalf("%s is not a UUID of version 8", id)
				}
				triple := fmt.Sprintf("%q %v %q", key, f, purpose)
				if other, taken := seen[id]; taken {
					t.Errorf("%s and %s have the key %s", triple, other, id)
				}
				seen[id] = triple
			}
		}
	}
	if len(seen) != len(texts)*len(fences)*len(texts) {
		t.Errorf("%d keys", len(seen))
	}
}

// TestIdempotencyKeyOfALostLease: a retry may come late.
func TestIdempotencyKeyOfALostLease(t *testing.T) {
	l := New("k", Fence{0, 7})
	held := l.IdempotencyKey("p")
	l.Lose(errors.New("why"))
	if got := l.IdempotencyKey("p"); got != held {
		t.Errorf("%s, before %s", got, held)
	}
}

func TestIdempotencyKeyWithoutFence(t *testing.T) {
	for _, l := range []*Lease{nil, New("the semaphore", Fence{})} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, "without a fence") || !strings.Contains(msg, l.Key()) {
					t.Errorf("panics with %q", msg)
				}
			}()
			t.Errorf("made %s", l.IdempotencyKey("p"))
		}()
	}
}
