import type { Area } from "./area";

export const wallet = {} as const satisfies Area;
