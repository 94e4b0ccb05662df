package history_test

import (
	"bufio"
	"encoding/json"
	"os"
)

// line is an operation, or a fault, as it is kept in a file.
type line struct {
	Client  int     `json:"client"`
	Replica int     `json:"replica"`
	Mutex   int     `json:"mutex"`
	Kind    kind    `json:"kind"`
	Party   party   `json:"party,omitempty"`
	Waits   bool    `json:"waits,omitempty"`
	Asked   float64 `json:"asked_ms,omitempty"`
	Fence   int64   `json:"fence,omitempty"`
	OpID    string  `json:"operation_id,omitempty"`
	Sent    float64 `json:"sent_ms"`
	Left    float64 `json:"left_ms"`
	Answer  answer  `json:"answer"`
	Seen    int64   `json:"seen"`
	Whose   party   `json:"whose,omitempty"`
	Window  float64 `json:"window_ms,omitempty"`
	Ended   string  `json:"ended,omitempty"`
	Text    string  `json:"text,omitempty"`
}

func (o *op) line() line {
	return line{
		Client: o.client, Replica: o.replica, Mutex: o.mutex, Kind: o.kind, Party: o.party, Waits: o.waits,
		Asked: ms(o.asked), Fence: o.fence, OpID: o.opID, Sent: ms(o.sent), Left: ms(o.left), Answer: o.answer,
		Seen: o.seen, Whose: o.whose, Window: ms(o.window), Ended: o.ended, Text: o.text,
	}
}

// keepFailed writes a history that cannot be to a file, for whoever looks into
// it.
func (r *run) keepFailed() {
	r.t.Helper()
	if !r.t.Failed() {
		return
	}
	f, err := os.CreateTemp(*keepFlag, "history-*.jsonl")
	if err != nil {
		r.t.Errorf("keep the history: %v", err)
		return
	}
	w := bufio.NewWriter(f)
	for _, o := range r.ops {
		text, _ := json.Marshal(o.line())  // there is nothing in it that cannot be JSON
		_, _ = w.Write(append(text, '\n')) // Flush has the error
	}
	if err := w.Flush(); err != nil {
		r.t.Errorf("keep the history: %v", err)
	}
	_ = f.Close()
	r.t.Logf("the history is in %s", f.Name())
}
