package httplease

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fencedsql/fencedsql/lease"
)

// The header fields, in the form of [http.CanonicalHeaderKey]; the comment of the package says what they hold. A request
// has both or neither, each once.
const (
	KeyHeader   = "Lease-Key"
	FenceHeader = "Lease-Fence"
)

// maxKey is the length in bytes of the longest key, before it is encoded.
const maxKey = 512

// The reasons of a 400. They are sent to whoever made the request, and so hold nothing of it.
var (
	errOne       = errors.New(KeyHeader + " and " + FenceHeader + " come together: one is missing")
	errRepeated  = errors.New(KeyHeader + " or " + FenceHeader + " is there more than once")
	errBadKey    = errors.New(KeyHeader + " is malformed: want UTF-8 of at most 512 bytes, percent-encoded except for visible ASCII without % and comma")
	errBadFence  = errors.New(FenceHeader + " is malformed: want a decimal number of at most 2^128-1, at most 40 digits and nothing else")
	errZeroFence = errors.New(FenceHeader + " is 0, which is no fence")
)

// fields returns what the header fields hold for l; "" and "" if there is nothing to send.
func fields(l *lease.Lease) (key, fence string, err error) {
	switch {
	case l.Err() != nil:
		return "", "", l.Err()
	case l.Fence().IsZero(): // of a semaphore, or no lease at all
		return "", "", nil
	case !valid(l.Key()):
		return "", "", fmt.Errorf("lease key %.80q is not UTF-8 of at most %d bytes", l.Key(), maxKey)
	}
	return encode(l.Key()), l.Fence().String(), nil
}

// read returns the lease that a request's header holds, nil if none.
func read(h http.Header) (*lease.Lease, error) {
	keys, fences := h[KeyHeader], h[FenceHeader]
	switch {
	case len(keys) == 0 && len(fences) == 0:
		return nil, nil
	case len(keys) == 0 || len(fences) == 0:
		return nil, errOne
	case len(keys) > 1 || len(fences) > 1:
		return nil, errRepeated
	}
	key, ok := decode(keys[0])
	if !ok {
		return nil, errBadKey
	}
	fence, err := lease.ParseFence(fences[0])
	switch {
	case err != nil:
		return nil, errBadFence
	case fence.IsZero():
		return nil, errZeroFence
	}
	return lease.New(key, fence), nil
}

func valid(key string) bool { return len(key) <= maxKey && utf8.ValidString(key) }

// plain reports whether a field holds the byte as it is: visible ASCII, without "%", which begins an encoded byte, and
// ",", which joins repeated fields.
func plain(c byte) bool { return ' ' < c && c < 0x7F && c != '%' && c != ',' }

func encode(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if plain(key[i]) {
			b.WriteByte(key[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", key[i])
		}
	}
	return b.String()
}

// decode reads what encode writes, and what encodes more bytes than needed, as other percent-encoders do.
func decode(s string) (key string, ok bool) {
	for i := range len(s) {
		if !plain(s[i]) && s[i] != '%' {
			return "", false
		}
	}
	key, err := url.PathUnescape(s)
	return key, err == nil && valid(key)
}
