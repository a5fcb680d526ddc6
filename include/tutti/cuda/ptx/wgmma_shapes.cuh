#pragma once

/// \file
/// Internal to wgmma.cuh. For each number of columns N it has the operands of the accumulators, as
/// PTX and as C++, and the numbers of the operands that follow. TUTTI_WGMMA_SHAPES(X) calls X with
/// N, N / 2 and the next six numbers.

#define TUTTI_D4 "%0, %1, %2, %3"
#define TUTTI_D8 TUTTI_D4 ", %4, %5, %6, %7"
#define TUTTI_D12 TUTTI_D8 ", %8, %9, %10, %11"
#define TUTTI_D16 TUTTI_D12 ", %12, %13, %14, %15"
#define TUTTI_D20 TUTTI_D16 ", %16, %17, %18, %19"
#define TUTTI_D24 TUTTI_D20 ", %20, %21, %22, %23"
#define TUTTI_D28 TUTTI_D24 ", %24, %25, %26, %27"
#define TUTTI_D32 TUTTI_D28 ", %28, %29, %30, %31"
#define TUTTI_D36 TUTTI_D32 ", %32, %33, %34, %35"
#define TUTTI_D40 TUTTI_D36 ", %36, %37, %38, %39"
#define TUTTI_D44 TUTTI_D40 ", %40, %41, %42, %43"
#define TUTTI_D48 TUTTI_D44 ", %44, %45, %46, %47"
#define TUTTI_D52 TUTTI_D48 ", %48, %49, %50, %51"
#define TUTTI_D56 TUTTI_D52 ", %52, %53, %54, %55"
#define TUTTI_D60 TUTTI_D56 ", %56, %57, %58, %59"
#define TUTTI_D64 TUTTI_D60 ", %60, %61, %62, %63"
#define TUTTI_D68 TUTTI_D64 ", %64, %65, %66, %67"
#define TUTTI_D72 TUTTI_D68 ", %68, %69, %70, %71"
#define TUTTI_D76 TUTTI_D72 ", %72, %73, %74, %75"
#define TUTTI_D80 TUTTI_D76 ", %76, %77, %78, %79"
#define TUTTI_D84 TUTTI_D80 ", %80, %81, %82, %83"
#define TUTTI_D88 TUTTI_D84 ", %84, %85, %86, %87"
#define TUTTI_D92 TUTTI_D88 ", %88, %89, %90, %91"
#define TUTTI_D96 TUTTI_D92 ", %92, %93, %94, %95"
#define TUTTI_D100 TUTTI_D96 ", %96, %97, %98, %99"
#define TUTTI_D104 TUTTI_D100 ", %100, %101, %102, %103"
#define TUTTI_D108 TUTTI_D104 ", %104, %105, %106, %107"
#define TUTTI_D112 TUTTI_D108 ", %108, %109, %110, %111"
#define TUTTI_D116 TUTTI_D112 ", %112, %113, %114, %115"
#define TUTTI_D120 TUTTI_D116 ", %116, %117, %118, %119"
#define TUTTI_D124 TUTTI_D120 ", %120, %121, %122, %123"
#define TUTTI_D128 TUTTI_D124 ", %124, %125, %126, %127"

#define TUTTI_F4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define TUTTI_F8 TUTTI_F4, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define TUTTI_F12 TUTTI_F8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define TUTTI_F16 TUTTI_F12, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define TUTTI_F20 TUTTI_F16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define TUTTI_F24 TUTTI_F20, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define TUTTI_F28 TUTTI_F24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define TUTTI_F32 TUTTI_F28, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define TUTTI_F36 TUTTI_F32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define TUTTI_F40 TUTTI_F36, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define TUTTI_F44 TUTTI_F40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define TUTTI_F48 TUTTI_F44, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define TUTTI_F52 TUTTI_F48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define TUTTI_F56 TUTTI_F52, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define TUTTI_F60 TUTTI_F56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define TUTTI_F64 TUTTI_F60, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define TUTTI_F68 TUTTI_F64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define TUTTI_F72 TUTTI_F68, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define TUTTI_F76 TUTTI_F72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define TUTTI_F80 TUTTI_F76, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define TUTTI_F84 TUTTI_F80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define TUTTI_F88 TUTTI_F84, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define TUTTI_F92 TUTTI_F88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define TUTTI_F96 TUTTI_F92, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define TUTTI_F100 TUTTI_F96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define TUTTI_F104 TUTTI_F100, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define TUTTI_F108 TUTTI_F104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define TUTTI_F112 TUTTI_F108, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define TUTTI_F116 TUTTI_F112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define TUTTI_F120 TUTTI_F116, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define TUTTI_F124 TUTTI_F120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define TUTTI_F128 TUTTI_F124, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

#define TUTTI_WGMMA_SHAPES(X)               \
  X(8, 4, 5, 6, 7, 8, 9, 10)                \
  X(16, 8, 9, 10, 11, 12, 13, 14)           \
  X(24, 12, 13, 14, 15, 16, 17, 18)         \
  X(32, 16, 17, 18, 19, 20, 21, 22)         \
  X(40, 20, 21, 22, 23, 24, 25, 26)         \
  X(48, 24, 25, 26, 27, 28, 29, 30)         \
  X(56, 28, 29, 30, 31, 32, 33, 34)         \
  X(64, 32, 33, 34, 35, 36, 37, 38)         \
  X(72, 36, 37, 38, 39, 40, 41, 42)         \
  X(80, 40, 41, 42, 43, 44, 45, 46)         \
  X(88, 44, 45, 46, 47, 48, 49, 50)         \
  X(96, 48, 49, 50, 51, 52, 53, 54)         \
  X(104, 52, 53, 54, 55, 56, 57, 58)        \
  X(112, 56, 57, 58, 59, 60, 61, 62)        \
  X(120, 60, 61, 62, 63, 64, 65, 66)        \
  X(128, 64, 65, 66, 67, 68, 69, 70)        \
  X(136, 68, 69, 70, 71, 72, 73, 74)        \
  X(144, 72, 73, 74, 75, 76, 77, 78)        \
  X(152, 76, 77, 78, 79, 80, 81, 82)        \
  X(160, 80, 81, 82, 83, 84, 85, 86)        \
  X(168, 84, 85, 86, 87, 88, 89, 90)        \
  X(176, 88, 89, 90, 91, 92, 93, 94)        \
  X(184, 92, 93, 94, 95, 96, 97, 98)        \
  X(192, 96, 97, 98, 99, 100, 101, 102)     \
  X(200, 100, 101, 102, 103, 104, 105, 106) \
  X(208, 104, 105, 106, 107, 108, 109, 110) \
  X(216, 108, 109, 110, 111, 112, 113, 114) \
  X(224, 112, 113, 114, 115, 116, 117, 118) \
  X(232, 116, 117, 118, 119, 120, 121, 122) \
  X(240, 120, 121, 122, 123, 124, 125, 126) \
  X(248, 124, 125, 126, 127, 128, 129, 130) \
  X(256, 128, 129, 130, 131, 132, 133, 134)
