/** Returns an object without the members that are undefined, for a type whose members may only be left out. */
export const withoutUndefined = <Given extends object>(given: Given) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [Key in keyof Given as undefined extends Given[Key] ? never : Key]: Given[Key];
  } & {
    [Key in keyof Given as undefined extends Given[Key] ? Key : never]?: Exclude<
      Given[Key],
      undefined
    >;
  };
