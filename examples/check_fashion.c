/*
 * check_fashion.c - tests of the example trainer's data reader and network.
 * Not an archive of the tree, hence its own program beside its sources.
 */
#include "fashion_data.h"
#include "fashion_net.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define SAMPLES 24

static char dir[] = "/tmp/check_fashion.XXXXXX";

static void put(const char *name, const void *bytes, size_t size, int packed)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s%s", dir, name, packed ? ".gz" : "");
	if (packed) {
		gzFile gz = gzopen(path, "wb");

		ck_assert_int_eq(gzwrite(gz, bytes, size), (int)size);
		ck_assert_int_eq(gzclose(gz), Z_OK);
	} else {
		FILE *f = fopen(path, "w");

		ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
		ck_assert_int_eq(fclose(f), 0);
	}
}

static uint8_t images[16 + SAMPLES * FASHION_PIXELS] = {
	0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, 28, 0, 0, 0, 28,
};
static uint8_t labels[8 + SAMPLES] = { 0, 0, 8, 1, 0, 0, 0, SAMPLES };

static void clean(void)
{
	static const char *const names[] = {
		"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
		"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
	};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
}

/* A small set of deterministic noise, as plain or as packed files. */
static void make_set(int packed)
{
	uint32_t s = 7;

	clean();
	for (size_t i = 16; i < sizeof(images); i++)
		images[i] = (s = s * 1664525 + 1013904223) >> 24;
	for (int i = 0; i < SAMPLES; i++)
		labels[8 + i] = i % FASHION_CLASSES;
	put("train-images-idx3-ubyte", images, sizeof(images), packed);
	put("train-labels-idx1-ubyte", labels, sizeof(labels), packed);
}

START_TEST(plain_and_packed_files_give_the_same_set)
{
	struct fashion_set set;
	struct fashion_why why;

	for (int packed = 0; packed < 2; packed++) {
		make_set(packed);
		ck_assert_int_eq(fashion_load(&set, dir, FASHION_TRAIN, &why), 0);
		ck_assert_uint_eq(set.count, SAMPLES);
		ck_assert_int_eq(set.images.mapped, !packed);
		ck_assert_mem_eq(set.images.values, images + 16,
				 sizeof(images) - 16);
		ck_assert_mem_eq(set.labels.values, labels + 8, SAMPLES);
		fashion_unload(&set);
	}
}
END_TEST

static const struct {
	const char *what;
	int of_labels;		/* which file is hurt */
	size_t keep;		/* its length, 0: all of it */
	size_t at;		/* byte to change, 0: none */
	uint8_t to;
	const char *text;
} broken[] = {
	{ "empty", 0, 1, 0, 0, "too short for IDX" },
	{ "header cut", 0, 15, 0, 0, "too short for IDX" },
	{ "other type", 0, 0, 2, 9, "magic is 0x00000903" },
	{ "other dimensions", 1, 0, 3, 3, "magic is 0x00000803" },
	{ "other height", 0, 0, 11, 27, "not 28 x 28" },
	{ "image cut", 0, sizeof(images) - 1, 0, 0, "bytes for 24 records" },
	{ "one label more", 1, 0, 7, SAMPLES + 1, "bytes for 25 records" },
	{ "huge count", 0, 0, 4, 0xff, "records" },
	{ "label no class", 1, 0, 8 + 3, 10, "label 3 is 10" },
};

START_TEST(a_broken_file_is_refused_and_named)
{
	struct fashion_set set;
	struct fashion_why why;
	uint8_t *bytes = broken[_i].of_labels ? labels : images;
	size_t size = broken[_i].of_labels ? sizeof(labels) : sizeof(images);

	for (int packed = 0; packed < 2; packed++) {
		make_set(packed);
		if (broken[_i].at)
			bytes[broken[_i].at] = broken[_i].to;
		put(broken[_i].of_labels ? "train-labels-idx1-ubyte"
					 : "train-images-idx3-ubyte",
		    bytes, broken[_i].keep ? broken[_i].keep : size, packed);
		images[2] = 8, images[4] = 0, images[11] = 28;
		labels[3] = 1, labels[7] = SAMPLES;
		ck_assert_int_eq(fashion_load(&set, dir, FASHION_TRAIN, &why), -1);
		ck_assert_int_eq(errno, EINVAL);
		ck_assert_msg(strstr(why.text, broken[_i].text) != NULL, "%s: %s",
			      broken[_i].what, why.text);
		ck_assert_ptr_null(set.images.base);
	}
}
END_TEST

START_TEST(a_cut_gzip_stream_is_refused)
{
	struct fashion_set set;
	struct fashion_why why;
	char path[128];
	struct stat st;

	make_set(1);
	snprintf(path, sizeof(path), "%s/train-images-idx3-ubyte.gz", dir);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(truncate(path, st.st_size - 5), 0);
	ck_assert_int_eq(fashion_load(&set, dir, FASHION_TRAIN, &why), -1);
	ck_assert_ptr_nonnull(strstr(why.text, "not a whole gzip file"));
}
END_TEST

START_TEST(an_absent_directory_is_named)
{
	struct fashion_set set;
	struct fashion_why why;

	ck_assert_int_eq(fashion_load(&set, "/nowhere", FASHION_TEST, &why), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/t10k-images"));
}
END_TEST

static struct fashion_net *net_and_set(struct fashion_set *set, int rows,
				       uint32_t *ids)
{
	struct fashion_net *net = fashion_net_create(5, rows, 3);

	make_set(0);
	ck_assert_ptr_nonnull(net);
	ck_assert_int_eq(fashion_load(set, dir, FASHION_TRAIN, NULL), 0);
	for (uint32_t i = 0; i < SAMPLES; i++)
		ids[i] = (i * 7) % SAMPLES;
	return net;
}

START_TEST(the_gradient_is_the_slope_of_the_loss)
{
	struct fashion_set set;
	uint32_t ids[SAMPLES];
	struct fashion_net *net = net_and_set(&set, SAMPLES, ids);
	size_t last = net->count;
	float *grad = malloc(last * sizeof(float));
	const float h = 2e-3f;
	int seen = 0;

	fashion_net_gradient(net, &set, ids, SAMPLES);
	memcpy(grad, net->grad, last * sizeof(float));
	/* A prime stride, and all of the small matrices at the end. */
	for (size_t i = 0; i < last; i += i + 65 < last ? 97 : 1) {
		float old = net->weights[i], up, down;

		net->weights[i] = old + h;
		fashion_net_gradient(net, &set, ids, SAMPLES);
		up = net->grad[last];
		net->weights[i] = old - h;
		fashion_net_gradient(net, &set, ids, SAMPLES);
		down = net->grad[last];
		net->weights[i] = old;
		ck_assert_float_eq_tol((up - down) / (2 * h), grad[i],
				       0.05f + 0.05f * fabsf(grad[i]));
		seen += fabsf(grad[i]) > 0.2f;
	}
	ck_assert_int_gt(seen, 20);
	free(grad);
	fashion_net_destroy(net);
	fashion_unload(&set);
}
END_TEST

START_TEST(slices_add_up_to_the_whole_batch)
{
	static const size_t cuts[][4] = {
		{ 0, 24, 24, 24 }, { 0, 8, 16, 24 }, { 0, 0, 1, 24 },
		{ 0, 23, 23, 24 },
	};
	struct fashion_set set;
	uint32_t ids[SAMPLES];
	/* Blocks of seven: also a slice that is not whole blocks. */
	struct fashion_net *net = net_and_set(&set, 7, ids);
	size_t n = fashion_net_grads(net);
	float *whole = malloc(n * sizeof(float)), *sum;

	fashion_net_gradient(net, &set, ids, SAMPLES);
	memcpy(whole, net->grad, n * sizeof(float));
	for (size_t c = 0; c < sizeof(cuts) / sizeof(*cuts); c++) {
		sum = calloc(n, sizeof(float));
		for (int r = 0; r < 3; r++) {
			fashion_net_gradient(net, &set, ids + cuts[c][r],
					     cuts[c][r + 1] - cuts[c][r]);
			for (size_t i = 0; i < n; i++)
				sum[i] += net->grad[i];
		}
		for (size_t i = 0; i < n; i++)
			ck_assert_float_eq_tol(sum[i], whole[i],
					       1e-3f + 1e-4f * fabsf(whole[i]));
		free(sum);
	}
	free(whole);
	fashion_net_destroy(net);
	fashion_unload(&set);
}
END_TEST

START_TEST(the_same_seed_gives_the_same_weights)
{
	struct fashion_net *a = fashion_net_create(9, 1, 5);
	struct fashion_net *b = fashion_net_create(9, 64, 5);
	struct fashion_net *c = fashion_net_create(9, 1, 6);

	ck_assert_mem_eq(a->state, b->state, fashion_net_bytes(a));
	ck_assert_mem_ne(a->state, c->state, fashion_net_bytes(a));
	fashion_net_destroy(a);
	fashion_net_destroy(b);
	fashion_net_destroy(c);
}
END_TEST

START_TEST(training_learns_the_set_by_heart)
{
	struct fashion_set set;
	uint32_t ids[SAMPLES];
	struct fashion_net *net = net_and_set(&set, SAMPLES, ids);

	for (int i = 0; i < 200; i++) {
		fashion_net_gradient(net, &set, ids, SAMPLES);
		fashion_net_step(net, 0.05f, 0.9f, SAMPLES);
	}
	ck_assert_uint_eq(fashion_net_correct(net, &set), SAMPLES);
	fashion_net_destroy(net);
	fashion_unload(&set);
}
END_TEST

START_TEST(a_net_of_no_size_is_refused)
{
	ck_assert_ptr_null(fashion_net_create(0, 1, 1));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(fashion_net_create(16385, 1, 1));
	ck_assert_ptr_null(fashion_net_create(1, 0, 1));
	fashion_net_destroy(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fashion");
	TCase *data = tcase_create("data"), *net = tcase_create("net");
	SRunner *runner;
	int failed;

	if (!mkdtemp(dir))
		return 1;
	tcase_add_test(data, plain_and_packed_files_give_the_same_set);
	tcase_add_loop_test(data, a_broken_file_is_refused_and_named, 0,
			    sizeof(broken) / sizeof(*broken));
	tcase_add_test(data, a_cut_gzip_stream_is_refused);
	tcase_add_test(data, an_absent_directory_is_named);
	tcase_add_test(net, the_gradient_is_the_slope_of_the_loss);
	tcase_add_test(net, slices_add_up_to_the_whole_batch);
	tcase_add_test(net, the_same_seed_gives_the_same_weights);
	tcase_add_test(net, training_learns_the_set_by_heart);
	tcase_add_test(net, a_net_of_no_size_is_refused);
	suite_add_tcase(suite, data);
	suite_add_tcase(suite, net);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	clean();
	rmdir(dir);
	return failed ? 1 : 0;
}
