/** Amounts in words, the same in every locale. */

/** A count with thousands separators: `9,412`. What is not a whole number is rounded. */
export const formatCount = (count: number): string =>
  Number.isFinite(count) ? String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",") : "unknown";

/** A count in at most five characters, for where there is no room, never rounded up: `9,412`, `31.2k`, `521k`, `1.2M`. */
export const formatCompact = (count: number): string => {
  if (!Number.isFinite(count) || count < 10_000) return formatCount(count);
  const [size, unit] = count < 1_000_000 ? [1000, "k"] : [1_000_000, "M"];
  const value = count / size;
  return `${value >= 100 ? Math.floor(value) : Math.floor(value * 10) / 10}${unit}`;
};

/** `1 host`, `9,412 hosts`. */
export const formatCountOf = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`;

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** Bytes in binary units with three digits at most, never rounded up to the next unit: `0 B`, `1.5 KiB`, `99.9 MiB`, `1,023 GiB`. */
export const formatBytes = (bytes: number): string => {
  if (!Number.isFinite(bytes) || bytes < 0) return "unknown";
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < byteUnits.length - 1) {
    value /= 1024;
    unit += 1;
  }
  // Rounded down, so that a queue just below its cap never reads as full.
  const text = unit === 0 || value >= 100 ? formatCount(Math.floor(value)) : String(Math.floor(value * 10) / 10);
  return `${text} ${byteUnits[unit]}`;
};

/** A share in whole percent, rounded down, so that only what is full reads `100 %`; of nothing it is `0 %`. */
export const formatShare = (part: number, whole: number): string =>
  `${whole > 0 ? Math.floor((part / whole) * 100) : 0} %`;
