/*
 * wire.c - messages between a worker and its agent, as bytes.
 *
 * A frame is sixteen bytes in network order (magic "MALL", version, type,
 * length of the body, id of the request) and a body, which is one JSON object.
 * Worker messages are flat: every field that we know is an integer, a real, a
 * truth value or a string.  So there is no tree here and no allocation: the
 * reader walks the body once and puts each known field where its table says.
 *
 * libmalle lives in other people's programs.  It may not bring a JSON library
 * along that could clash with theirs, and it may not depend on their locale:
 * numbers are read and written by hand, not by strtod and printf.
 *
 * Strict where it matters: a known field that is missing, of another kind, out
 * of range, too long or there twice is refused with its name, and the object
 * has to end where the body ends.  Loose where the protocol asks for it: a
 * field that no table knows is skipped, whatever it holds, nested up to a
 * depth that no honest message needs; a type that we do not know has no fields.
 * Bytes over 0x7f pass as they are: they are parts of paths and sentences.
 *
 * Integers beyond 2^53 - 1 are refused, because other readers of the protocol
 * keep them in a double.
 */
#include "worker/wire.h"

#include <errno.h>
#include <string.h>

#define DEPTH_MAX 16

enum kind { KIND_END, KIND_INT, KIND_REAL, KIND_BOOL, KIND_STR };

struct field {
	const char *name;
	enum kind kind;
	int required;
	double min, max; /* of a number; max of a string: bytes, with its end */
	size_t offset;   /* in struct wire_msg */
};

#define INT_AT(member, lo, hi) \
	{ #member, KIND_INT, 1, lo, hi, offsetof(struct wire_msg, member) }
#define STR_AT(member, req) \
	{ #member, KIND_STR, req, 0, sizeof(((struct wire_msg *)0)->member), \
		offsetof(struct wire_msg, member) }
#define END { NULL, KIND_END, 0, 0, 0, 0 }
#define BIG ((double)WIRE_INT_MAX)

static const struct field refuse[] = { INT_AT(code, 1, 255), STR_AT(text, 1), END };
static const struct field world[] = {
	INT_AT(world_size, 1, BIG),
	STR_AT(state_dir, 1),
	{ "replica_s", KIND_REAL, 1, 0, 86400, offsetof(struct wire_msg, replica_s) },
	END
};
static const struct field go[] = {
	STR_AT(state, 0),
	{ "resume", KIND_BOOL, 1, 0, 0, offsetof(struct wire_msg, resume) },
	END
};
static const struct field propose[] = {
	INT_AT(proposal, 1, BIG),
	INT_AT(step, 0, BIG),
	STR_AT(verdict, 1),
	END
};
static const struct field proposal[] = { INT_AT(proposal, 1, BIG), END };
static const struct field none[] = { END };

static const struct {
	enum wire_type type;
	const struct field *fields;
} tables[] = {
	{ WIRE_REFUSE, refuse },
	{ WIRE_WORLD, world },
	{ WIRE_GO, go },
	{ WIRE_PROPOSE, propose },
	{ WIRE_COMMIT, proposal },
	{ WIRE_WITHDRAW, proposal },
};

static const struct field *fields_of(unsigned type)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (tables[i].type == type)
			return tables[i].fields;
	return none;
}

/* --- frames --------------------------------------------------------------- */

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int wire_header_decode(const uint8_t in[WIRE_HEADER_SIZE], struct wire_header *header,
	struct malle_err *err)
{
	uint32_t both = get32(in + 4), length = get32(in + 8);

	if (get32(in) != WIRE_MAGIC)
		return fault_set(err, EPROTO, "a frame begins with %08x, not %08x",
			get32(in), WIRE_MAGIC);
	if (length > WIRE_BODY_MAX)
		return fault_set(err, EPROTO, "a body of %u bytes is over %u", length,
			WIRE_BODY_MAX);
	header->version = (uint16_t)(both >> 16);
	header->type = (uint16_t)both;
	header->length = length;
	header->id = get32(in + 12);
	return 0;
}

/* --- reading -------------------------------------------------------------- */

struct reader {
	const uint8_t *p, *end;
	const char *why; /* the first thing that was wrong, or NULL */
};

static int wrong(struct reader *r, const char *why)
{
	if (!r->why)
		r->why = why;
	return -1;
}

static int peek(struct reader *r)
{
	while (r->p < r->end &&
		(*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
	return r->p < r->end ? *r->p : -1;
}

static int expect(struct reader *r, char c, const char *why)
{
	if (peek(r) != c)
		return wrong(r, why);
	r->p++;
	return 0;
}

/* A string that is being read; what does not fit is counted, not kept. */
struct text {
	char *to;
	size_t size, used;
};

static void text_add(struct text *t, unsigned c)
{
	if (t->used + 1 < t->size)
		t->to[t->used] = (char)c;
	t->used++;
}

static void text_add_utf8(struct text *t, uint32_t c)
{
	if (c < 0x80) {
		text_add(t, c);
		return;
	}
	if (c < 0x800) {
		text_add(t, 0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			text_add(t, 0xe0 | c >> 12);
		} else {
			text_add(t, 0xf0 | c >> 18);
			text_add(t, 0x80 | (c >> 12 & 0x3f));
		}
		text_add(t, 0x80 | (c >> 6 & 0x3f));
	}
	text_add(t, 0x80 | (c & 0x3f));
}

static int read_hex4(struct reader *r, uint32_t *value)
{
	*value = 0;
	for (int i = 0; i < 4; i++, r->p++) {
		int c = r->p < r->end ? *r->p : -1, digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (c | 32) - 'a' + 10;
		else
			return wrong(r, "\\u without four hexadecimal digits");
		*value = *value << 4 | (uint32_t)digit;
	}
	return 0;
}

static int read_unicode(struct reader *r, struct text *t)
{
	uint32_t c, low;

	if (read_hex4(r, &c) < 0)
		return -1;
	if (c >= 0xd800 && c < 0xdc00) {
		if (r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u')
			return wrong(r, "half a surrogate pair");
		r->p += 2;
		if (read_hex4(r, &low) < 0)
			return -1;
		if (low < 0xdc00 || low > 0xdfff)
			return wrong(r, "half a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (c >= 0xdc00 && c <= 0xdfff) {
		return wrong(r, "half a surrogate pair");
	}
	if (!c)
		return wrong(r, "a NUL in a string");
	text_add_utf8(t, c);
	return 0;
}

static int read_escape(struct reader *r, struct text *t)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	int c = r->p < r->end ? *r->p++ : 0;
	const char *at = c ? strchr(from, c) : NULL;

	if (c == 'u')
		return read_unicode(r, t);
	if (!at)
		return wrong(r, "an unknown escape");
	text_add(t, (unsigned char)to[at - from]);
	return 0;
}

/* *length is of the whole string, also where it did not fit into size. */
static int read_string(struct reader *r, char *to, size_t size, size_t *length)
{
	struct text t = { to, size, 0 };

	if (expect(r, '"', "no string where one belongs") < 0)
		return -1;
	for (;;) {
		int c = r->p < r->end ? *r->p++ : -1;

		if (c == '"')
			break;
		if (c < 0x20)
			return wrong(r, "a string that does not end");
		if (c != '\\')
			text_add(&t, (unsigned)c);
		else if (read_escape(r, &t) < 0)
			return -1;
	}
	if (size)
		to[t.used < size ? t.used : size - 1] = 0;
	*length = t.used;
	return 0;
}

struct number {
	double value;
	uint64_t integer; /* where whole is set */
	int whole;
};

static int digits(struct reader *r, struct number *n, double *scale)
{
	const uint8_t *from = r->p;

	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
		unsigned d = *r->p - '0';

		n->value = n->value * 10 + d;
		*scale *= 10;
		if (n->integer > (UINT64_MAX - d) / 10)
			n->whole = 0;
		n->integer = n->integer * 10 + d;
	}
	return r->p > from ? 0 : wrong(r, "a number without digits");
}

static int read_exponent(struct reader *r, struct number *n)
{
	int negative = 0, power = 0;

	r->p++;
	if (r->p < r->end && (*r->p == '+' || *r->p == '-'))
		negative = *r->p++ == '-';
	if (r->p == r->end || *r->p < '0' || *r->p > '9')
		return wrong(r, "an exponent without digits");
	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		if (power < 1000)
			power = power * 10 + (*r->p - '0');
	/* beyond this a double is 0 or infinite whatever the digits */
	for (int i = 0; i < power && i < 700; i++)
		n->value = negative ? n->value / 10 : n->value * 10;
	return 0;
}

static int read_number(struct reader *r, struct number *n)
{
	int negative = peek(r) == '-';
	double scale = 1;

	*n = (struct number){ .whole = 1 };
	r->p += negative;
	if (r->end - r->p > 1 && r->p[0] == '0' && r->p[1] >= '0' && r->p[1] <= '9')
		return wrong(r, "a number that begins with 0");
	if (digits(r, n, &scale) < 0)
		return -1;
	if (r->p < r->end && *r->p == '.') {
		n->whole = 0;
		r->p++;
		scale = 1;
		if (digits(r, n, &scale) < 0)
			return -1;
		n->value /= scale;
	}
	if (r->p < r->end && (*r->p | 32) == 'e') {
		n->whole = 0;
		if (read_exponent(r, n) < 0)
			return -1;
	}
	if (negative) {
		n->value = -n->value;
		n->whole = n->whole && !n->integer;
	}
	return 0;
}

static int read_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n))
		return wrong(r, "an unknown word");
	r->p += n;
	return 0;
}

static int skip_value(struct reader *r, int depth);

static int skip_list(struct reader *r, int close, int depth)
{
	size_t length;

	r->p++;
	if (peek(r) == close) {
		r->p++;
		return 0;
	}
	for (;;) {
		if (close == '}' && (read_string(r, NULL, 0, &length) < 0 ||
					    expect(r, ':', "no colon after a key") < 0))
			return -1;
		if (skip_value(r, depth + 1) < 0)
			return -1;
		if (peek(r) == close) {
			r->p++;
			return 0;
		}
		if (expect(r, ',', "no comma between values") < 0)
			return -1;
	}
}

static int skip_value(struct reader *r, int depth)
{
	struct number n;
	size_t length;

	if (depth > DEPTH_MAX)
		return wrong(r, "values nested too deep");
	switch (peek(r)) {
	case '"':
		return read_string(r, NULL, 0, &length);
	case '{':
		return skip_list(r, '}', depth);
	case '[':
		return skip_list(r, ']', depth);
	case 't':
		return read_word(r, "true");
	case 'f':
		return read_word(r, "false");
	case 'n':
		return read_word(r, "null");
	default:
		return read_number(r, &n);
	}
}

static int read_numeric(struct reader *r, const struct field *f, void *to)
{
	struct number n;

	if (read_number(r, &n) < 0)
		return -1;
	if (f->kind == KIND_INT && !n.whole)
		return wrong(r, "no whole number");
	if (!(n.value >= f->min && n.value <= f->max))
		return wrong(r, "out of range");
	if (f->kind == KIND_INT)
		*(uint64_t *)to = n.integer;
	else
		*(double *)to = n.value;
	return 0;
}

static int read_field(struct reader *r, const struct field *f, struct wire_msg *msg)
{
	void *to = (char *)msg + f->offset;
	size_t length;

	switch (f->kind) {
	case KIND_STR:
		if (read_string(r, to, (size_t)f->max, &length) < 0)
			return -1;
		return length < (size_t)f->max ? 0 : wrong(r, "too long");
	case KIND_BOOL:
		*(int *)to = peek(r) == 't';
		return read_word(r, *(int *)to ? "true" : "false");
	default:
		return read_numeric(r, f, to);
	}
}

/* One `"key": value`; *name is the known field it was about, or NULL. */
static int read_member(struct reader *r, const struct field *fields, unsigned *seen,
	struct wire_msg *msg, const char **name)
{
	char key[33];
	size_t length;

	*name = NULL;
	if (read_string(r, key, sizeof(key), &length) < 0 ||
		expect(r, ':', "no colon after a key") < 0)
		return -1;
	for (const struct field *f = fields; f->name; f++) {
		if (length >= sizeof(key) || strcmp(f->name, key))
			continue;
		*name = f->name;
		if (*seen & 1u << (f - fields))
			return wrong(r, "there twice");
		*seen |= 1u << (f - fields);
		return read_field(r, f, msg);
	}
	return skip_value(r, 1);
}

static int read_object(struct reader *r, const struct field *fields, unsigned *seen,
	struct wire_msg *msg, const char **name)
{
	if (expect(r, '{', "no object") < 0)
		return -1;
	if (peek(r) == '}') {
		r->p++;
	} else {
		for (;;) {
			if (read_member(r, fields, seen, msg, name) < 0)
				return -1;
			*name = NULL;
			if (peek(r) == '}') {
				r->p++;
				break;
			}
			if (expect(r, ',', "no comma between fields") < 0)
				return -1;
		}
	}
	return peek(r) < 0 ? 0 : wrong(r, "something after the object");
}

int wire_decode(const struct wire_header *header, const uint8_t *body,
	struct wire_msg *msg, struct malle_err *err)
{
	const struct field *fields = fields_of(header->type);
	struct reader r = { body, body + header->length, NULL };
	const char *name = NULL;
	unsigned seen = 0;

	msg->type = header->type;
	msg->id = header->id;
	msg->state[0] = 0;
	if (read_object(&r, fields, &seen, msg, &name) < 0)
		return fault_set(err, EPROTO, "message %u, byte %td%s%s: %s", msg->type,
			r.p - body, name ? ", field " : "", name ? name : "", r.why);
	for (const struct field *f = fields; f->name; f++)
		if (f->required && !(seen & 1u << (f - fields)))
			return fault_set(err, EPROTO, "message %u: field %s is missing",
				msg->type, f->name);
	return 0;
}
