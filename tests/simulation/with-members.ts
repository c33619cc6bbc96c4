/** Returns the object with some members replaced; its getters stay alive. */
export const withMembers = <Changed extends object>(
  object: Changed,
  members: Partial<Changed>,
): Changed => Object.assign(Object.create(object) as Changed, members);
