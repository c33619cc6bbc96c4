/** Returns an object with the same keys and converted values. Faster than `Object.fromEntries`. */
export const mapValues = <Key extends string, Value, Converted>(
  values: Readonly<Record<Key, Value>>,
  convert: (value: Value) => Converted,
): Record<Key, Converted> => {
  const converted = {} as Record<Key, Converted>;
  for (const key in values) converted[key] = convert(values[key]);
  return converted;
};
