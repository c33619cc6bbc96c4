const counts = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Returns a count with thousands separators, rounded: `9,412`. */
export const formatCount = (count: number): string =>
  Number.isFinite(count) ? counts.format(count) : "unknown";

/** Returns a count with its noun: `1 host`, `9,412 hosts`. */
export const formatCountOf = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`;

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** Returns bytes in binary units, never rounded up to the next unit: `0 B`, `1.5 KiB`, `99.9 MiB`, `1,023 GiB`. */
export const formatBytes = (bytes: number): string => {
  if (!Number.isFinite(bytes) || bytes < 0) return "unknown";
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < byteUnits.length - 1) {
    value /= 1024;
    unit += 1;
  }
  // Rounded down, so that a queue just below its cap never reads as full.
  const text =
    unit === 0 || value >= 100
      ? formatCount(Math.floor(value))
      : String(Math.floor(value * 10) / 10);
  return `${text} ${byteUnits[unit]}`;
};
