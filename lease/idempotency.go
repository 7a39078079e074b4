package lease

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// IdempotencyKey returns a key for services that compare no fences but do the work of equal keys once, such as payment
// providers. It depends on nothing but the lease's key, its fence and purpose: it is the same in each retry, in each
// process, in a service that got the lease over HTTP, after the lease is lost and in later versions of this package;
// and another one for another lease or purpose.
//
// It makes retries under one lease harmless, while the service remembers its keys (Stripe: at least 24 hours). It does
// not keep a stale holder out. The next holder has another fence and so another key: if both call, both are served.
// Where that must not be, either take a key made of the work alone, such as the number of the invoice, or store this one
// before the call and use what is stored, so that a later holder repeats the call instead of making one of its own:
//
//	UPDATE invoices SET payment_key = ? WHERE id = ? AND payment_key IS NULL -- fenced, with l.IdempotencyKey("pay")
//	SELECT payment_key FROM invoices WHERE id = ?                            -- the key to call with, whoever stored it
//
// Purpose may be any text. It tells apart all calls under the lease, and leases of different sources whose keys and
// fences could be equal: "pay invoice 17" rather than "pay", if one lease pays several.
//
// The form is that of a UUID, lower case, which providers take that want one or that have a limit of 36 characters:
// version 8 (RFC 9562, section 5.8), from a SHA-256. It is not a secret: whoever knows the three can make it.
//
// It panics if l is nil or has no fence, such as a semaphore's: all such leases of a key would share one key, and a
// payment that is due would pass for a repeated one.
func (l *Lease) IdempotencyKey(purpose string) string {
	if l.Fence().IsZero() {
		panic(fmt.Sprintf("lease: no idempotency key without a fence (key %q)", l.Key()))
	}
	// Key and fence have their lengths before or by themselves, so that no two triples give the same bytes.
	b := []byte("fencedsql idempotency key\x00")
	b = binary.BigEndian.AppendUint64(b, l.fence.Epoch)
	b = binary.BigEndian.AppendUint64(b, l.fence.Count)
	b = binary.BigEndian.AppendUint64(b, uint64(len(l.key)))
	b = append(b, l.key...)
	b = append(b, purpose...)
	id := sha256.Sum256(b)
	id[6] = id[6]&0x0F | 0x80 // version 8
	id[8] = id[8]&0x3F | 0x80 // the variant of RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
