import type { Area } from "./area";

export const team = {} as const satisfies Area;
