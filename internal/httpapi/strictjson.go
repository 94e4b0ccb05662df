package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// maxDepth is more than any body of the contract needs, and less than what a
// stack minds.
const maxDepth = 16

// decodeJSON returns the one value in text, and {} for no text at all. It is
// stricter than encoding/json where two readers could understand the same text
// in two ways: nothing may follow the value, no field may be there twice, and
// what is not UTF-8 is not repaired.
func decodeJSON(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]any{}, nil
	}
	if !utf8.Valid(text) {
		return nil, service.Invalid("", "the body is not UTF-8")
	}
	d := strictDecoder{json.NewDecoder(bytes.NewReader(text))}
	d.UseNumber()
	value, err := d.value(nil)
	if err != nil {
		return nil, asInvalid(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, service.Invalid("", "something follows the JSON value of the body")
	}
	return value, nil
}

// asInvalid says what is wrong with the JSON, unless that is said already.
func asInvalid(err error) error {
	var known *service.Error
	if errors.As(err, &known) {
		return err
	}
	return &service.Error{Kind: service.KindInvalidArgument, Detail: "the body is not JSON", Err: err}
}

type strictDecoder struct {
	*json.Decoder
}

// value decodes what comes next; path is where it stands.
func (d strictDecoder) value(path []string) (any, error) {
	if len(path) > maxDepth {
		return nil, service.Invalid("", "the body is nested too deeply")
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return whole(t, path)
	case json.Delim:
		if t == '{' {
			return d.object(path)
		}
		return d.array(path)
	}
	return token, nil
}

func (d strictDecoder) object(path []string) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // the decoder accepts nothing else here
		at := append(path[:len(path):len(path)], key)
		if _, twice := object[key]; twice {
			return nil, service.Invalid(fieldPath(at), "is given twice")
		}
		if object[key], err = d.value(at); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

func (d strictDecoder) array(path []string) (any, error) {
	array := []any{}
	for d.More() {
		at := append(path[:len(path):len(path)], strconv.Itoa(len(array)))
		v, err := d.value(at)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := d.Token()
	return array, err
}

// whole writes 1e3 and 1.0, which JSON Schema takes for integers, as Go's
// integers are written.
func whole(n json.Number, path []string) (any, error) {
	if _, err := n.Int64(); err == nil {
		return n, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, service.Invalid(fieldPath(path), "is out of range")
	}
	if f == math.Trunc(f) && math.Abs(f) <= float64(service.MaxFence) {
		return json.Number(strconv.FormatInt(int64(f), 10)), nil
	}
	return n, nil
}
