/** Returns the value below which `fraction` of the samples are; NaN without samples. Sorts `samples`. */
export const quantile = (samples: Float64Array, fraction: number): number => {
  samples.sort();
  return samples[Math.min(samples.length - 1, Math.floor(samples.length * fraction))] ?? Number.NaN;
};
