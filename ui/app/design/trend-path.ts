/** The height of a line of figures, in units of its own; a point has the width of one. */
export const trendHeight = 100;

/**
 * Returns the path of a line through figures, with a gap where there is none. It begins at the lowest figure, at most nine tenths of the
 * highest, so that a few of many stay a small change.
 */
export const trendPath = (points: readonly (number | null)[]): string => {
  const known = points.filter((point) => point !== null);
  const highest = Math.max(1, ...known);
  const lowest = Math.min(highest * 0.9, ...known);
  return points
    .map((point, index) => {
      if (point === null) return "";
      const y = Math.round((trendHeight * (highest - point)) / (highest - lowest));
      // A point without a neighbour is a dot.
      return (points[index - 1] ?? null) === null ? `M${index} ${y}h0` : `L${index} ${y}`;
    })
    .join("");
};
