/** Returns an object without its undefined members, for a type whose optional members may not be undefined. */
export const withoutUndefined = <Given extends object>(given: Given) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [Key in keyof Given as undefined extends Given[Key] ? never : Key]: Given[Key];
  } & {
    [Key in keyof Given as undefined extends Given[Key] ? Key : never]?: Exclude<
      Given[Key],
      undefined
    >;
  };
