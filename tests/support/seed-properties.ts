import fc from "fast-check";

// A run of the tests draws the same cases every time; SVC_TEST_SEED=N draws others.
fc.configureGlobal({ seed: Number(process.env.SVC_TEST_SEED ?? 1) });
