/** Intervals for the difference of two groups of independent observations: of shares, and of means. */

/** A difference, and its interval at the given confidence. */
export interface EstimatedDifference {
  value: number;
  low: number;
  high: number;
}

/** The number of true observations, of all. */
interface Share {
  count: number;
  of: number;
}

/**
 * Returns the difference `a - b` of two shares with Newcombe's interval, which is valid also for shares near 0 and 1 and for few observations,
 * where it is wide. Both need at least one observation.
 */
export const differenceOfShares = (a: Share, b: Share, confidence: number): EstimatedDifference => {
  const z = normalQuantile((1 + confidence) / 2);
  const one = wilson(a, z);
  const other = wilson(b, z);
  const value = one.share - other.share;
  return {
    value,
    low: value - Math.hypot(one.share - one.low, other.high - other.share),
    high: value + Math.hypot(one.high - one.share, other.share - other.low),
  };
};

/** Wilson's interval of a share. */
const wilson = ({ count, of }: Share, z: number) => {
  const share = count / of;
  const middle = (share + (z * z) / (2 * of)) / (1 + (z * z) / of);
  const half =
    (z / (1 + (z * z) / of)) * Math.sqrt((share * (1 - share)) / of + (z * z) / (4 * of * of));
  return { share, low: middle - half, high: middle + half };
};

/** Returns the difference `a - b` of two means with Welch's interval, which allows for different variances. Both need two values. */
export const differenceOfMeans = (
  a: readonly number[],
  b: readonly number[],
  confidence: number,
): EstimatedDifference => {
  const first = momentsOf(a);
  const second = momentsOf(b);
  const value = first.mean - second.mean;
  const variance = first.varianceOfMean + second.varianceOfMean;
  if (variance === 0) return { value, low: value, high: value };
  const freedom =
    variance ** 2 /
    (first.varianceOfMean ** 2 / (a.length - 1) + second.varianceOfMean ** 2 / (b.length - 1));
  const half = studentQuantile((1 + confidence) / 2, freedom) * Math.sqrt(variance);
  return { value, low: value - half, high: value + half };
};

/** Returns the mean, and the variance of the mean. */
const momentsOf = (values: readonly number[]): { mean: number; varianceOfMean: number } => {
  const mean = values.reduce((sum, each) => sum + each, 0) / values.length;
  const squares = values.reduce((sum, each) => sum + (each - mean) ** 2, 0);
  return { mean, varianceOfMean: squares / (values.length - 1) / values.length };
};

/** The quantile of Student's distribution from that of the normal one (Cornish and Fisher): exact to 0.1 % from five degrees of freedom on. */
const studentQuantile = (probability: number, freedom: number) => {
  const z = normalQuantile(probability);
  const terms = [
    z,
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
    (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / 92_160,
  ];
  return terms.reduce((sum, term, power) => sum + term / freedom ** power, 0);
};

/** The quantile of the normal distribution above one half (Acklam's approximation, relative error below 1.2e-9). */
const normalQuantile = (probability: number) => {
  if (probability > 1 - 0.02425) {
    const q = Math.sqrt(-2 * Math.log(1 - probability));
    return -polynomial(tail.above, q) / (polynomial(tail.below, q) * q + 1);
  }
  const q = probability - 0.5;
  const r = q * q;
  return (polynomial(middle.above, r) * q) / (polynomial(middle.below, r) * r + 1);
};

const polynomial = (coefficients: readonly number[], x: number) =>
  coefficients.reduce((sum, each) => sum * x + each, 0);

const middle = {
  above: [
    -3.969683028665376e1, 2.209460984245205e2, -2.759285104469687e2, 1.38357751867269e2,
    -3.066479806614716e1, 2.506628277459239,
  ],
  below: [
    -5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1,
    -1.328068155288572e1,
  ],
};
const tail = {
  above: [
    -7.784894002430293e-3, -3.223964580411365e-1, -2.400758277161838, -2.549732539343734,
    4.374664141464968, 2.938163982698783,
  ],
  below: [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416],
};
