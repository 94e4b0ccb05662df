package etcdstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// recordVersion is written into every value. A replica refuses values of a
// version that it does not know, instead of guessing what they mean.
const recordVersion = 1

// header is embedded in every record.
type header struct {
	V int `json:"v"`
}

func (h header) version() int { return h.V }

var current = header{V: recordVersion}

// asked is what a party asked for, in milliseconds; nil is "as declared".
type asked struct {
	TTL        *int64 `json:"asked_ttl_ms,omitempty"`
	Transition *int64 `json:"asked_transition_ms,omitempty"`
}

func newAsked(a service.Asked) asked {
	ms := func(d *time.Duration) *int64 {
		if d == nil {
			return nil
		}
		v := d.Milliseconds()
		return &v
	}
	return asked{TTL: ms(a.TTL), Transition: ms(a.Transition)}
}

func (a asked) domain() service.Asked {
	d := func(v *int64) *time.Duration {
		if v == nil {
			return nil
		}
		x := time.Duration(*v) * time.Millisecond
		return &x
	}
	return service.Asked{TTL: d(a.TTL), Transition: d(a.Transition)}
}

// ownerRecord is m/{mutex}/owner.
type ownerRecord struct {
	header
	Contender service.ContenderID `json:"contender_id"`
	Pair      service.Pair        `json:"pair"`
	// Fence is the revision at which the ownership began. The write that
	// begins it cannot know its own revision and leaves it out; every later
	// write of the same ownership copies it in. create_revision would not do:
	// after a hand-over, a put over the key, it is still the predecessor's.
	Fence        service.Fence     `json:"fencing_token,omitempty"`
	AcquiredAt   time.Time         `json:"acquired_at"`
	TTLMs        int64             `json:"ttl_ms"`
	TransitionMs int64             `json:"transition_ms"`
	MaxHoldMs    int64             `json:"max_hold_ms,omitempty"`
	HeldMs       int64             `json:"held_ms,omitempty"` // age at this write, on its writer's monotonic clock
	Metadata     map[string]string `json:"metadata,omitempty"`
	Replica      string            `json:"replica"` // the home
	// Poll is the request that the grant is to be answered by; a guard
	// removes it, for who guards has been told.
	Poll string `json:"poll,omitempty"`
	// Joined and JoinedAt are of the place that the grant took, so that
	// passing on can put it back in the same order.
	Joined   int64      `json:"joined,omitempty"`
	JoinedAt *time.Time `json:"joined_at,omitempty"`
	asked
}

func (r ownerRecord) terms() service.Terms {
	ms := func(v int64) time.Duration { return time.Duration(v) * time.Millisecond }
	return service.Terms{TTL: ms(r.TTLMs), Transition: ms(r.TransitionMs), MaxHold: ms(r.MaxHoldMs)}
}

func (r *ownerRecord) setTerms(t service.Terms) {
	r.TTLMs, r.TransitionMs, r.MaxHoldMs = t.TTL.Milliseconds(), t.Transition.Milliseconds(), t.MaxHold.Milliseconds()
}

// entryRecord is m/{mutex}/line/{pair}: a place in line.
type entryRecord struct {
	header
	Contender service.ContenderID `json:"contender_id"`
	// Joined orders the line: the revision of the first write, which leaves
	// it out; every later write copies it in. An entry that is deleted and
	// put back would have a new create_revision, later than a waiter who
	// joined in between.
	Joined   int64             `json:"joined,omitempty"`
	JoinedAt time.Time         `json:"joined_at"`
	Present  bool              `json:"present"`
	Poll     string            `json:"poll"`
	Replica  string            `json:"replica"`
	Lease    int64             `json:"owner_lease,omitempty"` // what the owner's key hangs on after a hand-over
	Metadata map[string]string `json:"metadata,omitempty"`
	asked
}

// settledRecord is settled/{mutex}/{pair}: how a token's ownership or wait
// ended.
type settledRecord struct {
	header
	Contender   service.ContenderID `json:"contender_id"`
	Ended       service.Ending      `json:"ended"`
	Fence       service.Fence       `json:"fencing_token,omitempty"`
	AcquiredAt  time.Time           `json:"acquired_at,omitzero"`
	EndedAt     time.Time           `json:"ended_at"`
	MaxHold     bool                `json:"max_hold,omitempty"` // it ended at its declared age
	OperationID string              `json:"operation_id,omitempty"`
	Reason      string              `json:"reason,omitempty"`
}

// spent reports whether the token had an ownership: who only left the line may
// come again with the same token.
func (r *settledRecord) spent() bool { return r != nil && r.Ended != service.EndedLeft }

func (r *settledRecord) past() service.PastOwnership {
	return service.PastOwnership{
		Contender: r.Contender, Fence: r.Fence, AcquiredAt: r.AcquiredAt,
		EndedAt: r.EndedAt, Ended: r.Ended, Reason: r.Reason,
	}
}

// declaredRecord is declared/{mutex}.
type declaredRecord struct {
	header
	Description  string            `json:"description,omitempty"`
	TTLMs        int64             `json:"ttl_ms"`
	TransitionMs int64             `json:"transition_ms"`
	MaxHoldMs    int64             `json:"max_hold_ms,omitempty"`
	MaxWaiters   int               `json:"max_waiters,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

func newDeclared(s service.Settings) declaredRecord {
	return declaredRecord{
		header: current, Description: s.Description,
		TTLMs: s.TTL.Milliseconds(), TransitionMs: s.Transition.Milliseconds(), MaxHoldMs: s.MaxHold.Milliseconds(),
		MaxWaiters: s.MaxWaiters, Labels: s.Labels,
	}
}

func (r declaredRecord) settings() service.Settings {
	ms := func(v int64) time.Duration { return time.Duration(v) * time.Millisecond }
	return service.Settings{
		Description: r.Description, TTL: ms(r.TTLMs), Transition: ms(r.TransitionMs), MaxHold: ms(r.MaxHoldMs),
		MaxWaiters: r.MaxWaiters, Labels: r.Labels,
	}
}

// historyRecord is history/{mutex} of a declared mutex, the newest first.
type historyRecord struct {
	header
	Past []settledRecord `json:"past"`
}

// historyLength is how many ownerships a history keeps.
const historyLength = 10

func (h historyRecord) with(s settledRecord) historyRecord {
	s.OperationID = ""
	past := append([]settledRecord{s}, h.Past...)
	return historyRecord{header: current, Past: past[:min(len(past), historyLength)]}
}

// encode returns v as it is stored. Records hold nothing that cannot be JSON.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("etcdstore: a record that is not JSON: %v", err))
	}
	return string(b)
}

// decode reads a stored value; one of another version is an error.
func decode[T interface{ version() int }](value []byte) (T, error) {
	var rec T
	if err := json.Unmarshal(value, &rec); err != nil {
		return rec, fmt.Errorf("stored value: %w", err)
	}
	if rec.version() != recordVersion {
		return rec, fmt.Errorf("stored value of version %d, want %d", rec.version(), recordVersion)
	}
	return rec, nil
}

// now is the wall clock as records carry it, for people to read.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// replicaRecord is replicas/{id}.
type replicaRecord struct {
	header
	At       time.Time `json:"at"` // wall clock, for people to read
	Embedded bool      `json:"embedded,omitempty"`
}
