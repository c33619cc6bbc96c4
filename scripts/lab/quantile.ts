/** Returns the value below which `fraction` of the samples are; NaN without samples. Sorts `samples`. */
export const quantile = (samples: Float64Array, fraction: number): number => {
  samples.sort();
  return samples[Math.min(samples.length - 1, Math.floor(samples.length * fraction))] ?? Number.NaN;
};

/** Returns quantiles of samples in milliseconds, to a tenth; zeros without samples. */
export const describeSamples = (samples: ArrayLike<number>) => {
  const sorted = Float64Array.from(samples);
  const at = (share: number) => Math.round((quantile(sorted, share) || 0) * 10) / 10;
  return { count: samples.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
};
